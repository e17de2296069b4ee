"""Passes of two networks at once give what the modules give for each, within rounding.

On a GPU the compiled kernels in bf16; without one Triton's interpreter in fp32.
"""

import pytest
import torch
from helpers.in_play import in_play
from helpers.triton_kernels import need_triton

from arena.encoders import PACKINGS, encoder_named
from arena.rules import TEAM
from marl.compute.adam import flatten
from marl.networks.actors import make_actor
from marl.networks.critics import Critic
from marl.networks.dense_pass import Gradients, dense_layers
from marl.networks.spec import NetworkSpec
from marl.networks.stacked_pass import StackedPass, WideRows
from marl.networks.tail_tiles import TailTile, TailTiles

SEED = 37
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if HAS_CUDA else torch.device("cpu")
DTYPE = torch.bfloat16 if HAS_CUDA else torch.float32
MATCHES = 300 if HAS_CUDA else 4
# Few steps: the interpreter takes long for each.
TAIL = None if HAS_CUDA else TailTiles(TailTile(16, 4, 2), TailTile(16, 4, 2), TailTile(16, 4, 2, outputs=64), 2)


@pytest.fixture(scope="module")
def kernels() -> None:
    need_triton()


def assert_near(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Within the rounding of the format: the norm of the difference, as a share of the norm. (In bf16 one ReLU in a
    thousand is on the other side.)"""
    off = ((found.float() - expected.float()).norm() / expected.norm()).item()
    assert off < (0.05 if HAS_CUDA else 1e-5), f"{what}: off by {off:.2g}, seed {SEED}"


def seen(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain and packed rows of snakes in the middle of matches."""
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    arena = in_play(MATCHES, SEED)
    packed = PACKINGS[name].packed.name if name in PACKINGS else name
    plain, packed = (arena.observe(form).flatten(0, 1).to(DEVICE) for form in (name, packed))
    return plain, packed


@pytest.mark.parametrize("name", [*PACKINGS, "tactical"])
def test_rows_become_wide(kernels, name) -> None:
    """Rows in order, and two batches of teams by index; behind them a column of ones."""
    plain, packed = seen(name)
    width, each = plain.shape[1], plain.view(-1, TEAM, plain.shape[1])
    for rows, packing in ((plain, None), *(((packed, PACKINGS[name]),) if name in PACKINGS else ())):
        wide = WideRows(width, packing, 1, len(rows), DTYPE, DEVICE)
        wide.read(rows)
        assert torch.equal(wide.x[0, :, :width], plain.to(DTYPE))
        idx, next_idx = (torch.randperm(len(each))[:3].to(DEVICE) for _ in range(2))
        wide = WideRows(width, packing, 2, 3 * TEAM, DTYPE, DEVICE)
        wide.read(rows, idx, next_idx)
        assert torch.equal(wide.x[:, :, :width], torch.stack((each[idx], each[next_idx])).flatten(1, 2).to(DTYPE))
        assert (wide.x[:, :, width] == 1).all()
        assert not wide.x[:, :, width + 1 :].any()


@pytest.mark.parametrize(
    ("name", "body"),
    [("planes", (48, 20)), *([("planes", (512, 256)), ("planes", (256, 128)), ("tactical", (96, 80))] * HAS_CUDA)],
    ids=str,
)
def test_two_networks_at_once_give_the_outputs_and_gradients_of_each(kernels, name, body) -> None:
    plain, _ = seen(name)
    encoder, spec = encoder_named(name), NetworkSpec(body, 4)
    networks = make_actor(encoder, spec).to(DEVICE), Critic(encoder, spec, "heads", team=False).to(DEVICE)
    with torch.no_grad():
        for parameter in (*networks[0].parameters(), *networks[1].parameters()):
            parameter.add_(0.02 * torch.randn_like(parameter))
    flat = flatten([*networks[0].parameters(), *networks[1].parameters()]).view(2, -1)
    wide = WideRows(encoder.width, None, 1, len(plain), DTYPE, DEVICE)
    wide.read(plain)
    stacked = StackedPass(dense_layers(networks[0]), flat, wide.x[0], TAIL)
    stacked.outputs.fill_(torch.nan)
    by_outputs = torch.randn(stacked.outputs.shape, device=DEVICE)
    gradients = Gradients(*networks)
    for _ in range(2 if HAS_CUDA else 1):  # the second time over what the first one left
        gradients.flat.fill_(torch.nan)
        stacked.take_weights()
        stacked.forward()
        stacked.backward_outputs(by_outputs)
        stacked.backward_second()
        stacked.backward_first()
        stacked.collect_gradients(gradients.flat.view(2, -1))
    for i, network in enumerate(networks):
        with torch.autocast(DEVICE.type, DTYPE, enabled=HAS_CUDA, cache_enabled=False):
            expected = (network(plain.to(DTYPE)) if i == 0 else network(plain.to(DTYPE), None)).float()
        assert_near(stacked.outputs[i], expected, f"outputs {i}")
        expected.backward(by_outputs[i])
        for found, (key, parameter) in zip(gradients.of[i], network.named_parameters(), strict=True):
            assert_near(found, parameter.grad, f"{key} of network {i}")
