"""The LSTM's kernels give the states and gradients of torch's LSTMCell, turn by turn, within rounding.

On a GPU the compiled kernels in bf16; without one Triton's interpreter in fp32.
"""

import pytest
import torch
from helpers.triton_kernels import need_triton
from torch import nn

from arena.backends.cuda_graphs import side_stream
from arena.encoders import encoder_named
from marl.compute.triton_kernels import triton_problem
from marl.networks import actors
from marl.networks.actors import make_actor
from marl.networks.lstm_pass import STREAMED, LstmTiles, StepTile, TurnsTile, lstm_step, lstm_turns
from marl.networks.spec import NetworkSpec

SEED = 23
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if HAS_CUDA else torch.device("cpu")
DTYPE = torch.bfloat16 if HAS_CUDA else torch.float32
INPUTS = 40
# Large steps: the interpreter takes long for each. 19 snakes are more than a tile and do not fill the next one.
FEW = LstmTiles(TurnsTile(16, 2048, 4, 2), TurnsTile(16, 2048, 4, 2), StepTile(16, 32, 32, 4, 2))
FEW_RESIDENT = FEW._replace(forward=TurnsTile(16, 0, 4, 1), backward=TurnsTile(16, 0, 4, 1))
CASES = [(6, 5, 32), (3, 19, 64)] + [(16, 4095, 128), (16, 999, 64), (5, 130, 256), (1, 64, 32), (7, 2, 128)] * HAS_CUDA
by_size = pytest.mark.parametrize(("turns", "snakes", "size"), CASES)
needs_triton = pytest.mark.skipif(
    HAS_CUDA and triton_problem(torch.device("cuda", 0)) != "", reason="Triton's kernels cannot run"
)


@pytest.fixture(params=["streamed", "resident"])
def tiles(request) -> LstmTiles | None:
    """An argument of the tested functions. On a GPU: streamed weights, and what this GPU uses."""
    streamed = request.param == "streamed"
    if HAS_CUDA:
        if triton_problem(DEVICE):
            pytest.skip(triton_problem(DEVICE))
        return STREAMED if streamed else None
    need_triton()
    return FEW if streamed else FEW_RESIDENT


def a_sequence(turns: int, snakes: int, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, nn.LSTMCell]:
    """Inputs, first turns of matches (some in the middle, one at each end), a hidden state, weights."""
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    cell = nn.LSTMCell(INPUTS, size).to(DEVICE)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(2)
    x = torch.randn(turns, snakes, INPUTS, device=DEVICE).to(DTYPE)
    is_first = torch.rand(turns, snakes, device=DEVICE) < 0.2
    is_first[0, 0] = is_first[-1, -1] = True
    return x, is_first, torch.randn(2, snakes, size, device=DEVICE), cell


def plain_turns(x: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor, cell: nn.LSTMCell) -> torch.Tensor:
    h, c = hidden
    outputs = []
    for x_of_turn, first in zip(x, is_first, strict=True):
        keep = (~first).float()[:, None]
        h, c = cell(x_of_turn, (h * keep, c * keep))
        outputs.append(h)
    return torch.stack(outputs)


def with_gradients(function, x, is_first, hidden, cell, by_outputs, *tiles) -> dict[str, torch.Tensor]:
    x, hidden = x.detach().clone().requires_grad_(), hidden.clone().requires_grad_()
    outputs = function(x, is_first, hidden, cell, *tiles)
    outputs.backward(by_outputs.to(outputs.dtype))
    found = {"outputs": outputs.detach(), "x": x.grad, "hidden": hidden.grad}
    found |= {name: parameter.grad for name, parameter in cell.named_parameters()}
    cell.zero_grad()
    return found


def off_by(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference, as a share of the norm. Both may be 0, if all matches begin at the first turn."""
    return ((found.float() - expected.float()).norm() / expected.norm().clamp(min=1e-9)).item()


@by_size
def test_all_turns_and_their_gradients_are_those_of_torch(tiles, turns, snakes, size) -> None:
    sequence = a_sequence(turns, snakes, size)
    by_outputs = torch.randn(turns, snakes, size, device=DEVICE).to(DTYPE)
    found = with_gradients(lstm_turns, *sequence, by_outputs, tiles)
    expected = with_gradients(plain_turns, sequence[0].float(), *sequence[1:], by_outputs)
    # In bf16: not further from fp32 than torch is.
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=HAS_CUDA, cache_enabled=False):
        rounded = with_gradients(plain_turns, *sequence, by_outputs)
    for name, tensor in found.items():
        off, allowed = off_by(tensor, expected[name]), 1e-5 + 1.5 * HAS_CUDA * off_by(rounded[name], expected[name])
        assert tensor.shape == expected[name].shape
        assert off < allowed, f"{name}: off by {off:.2g}, allowed {allowed:.2g}, seed {SEED}"


@by_size
def test_turns_one_by_one_are_those_of_a_sequence(tiles, turns, snakes, size) -> None:
    x, is_first, hidden, cell = a_sequence(turns, snakes, size)
    with torch.no_grad():
        expected = lstm_turns(x, is_first, hidden, cell, tiles)
    for turn in range(turns):
        out = hidden if turn % 2 else None
        h, hidden = lstm_step(x[turn], is_first[turn], hidden, cell, out, tiles)
        assert out is None or hidden is out
        assert off_by(h, expected[turn]) < (1e-2 if HAS_CUDA else 1e-5), f"turn {turn}, seed {SEED}"
        assert torch.equal(hidden[0], h.float())


@pytest.mark.needs_cuda
@needs_triton
def test_an_actor_uses_the_kernels_and_can_be_recorded_as_a_graph(monkeypatch) -> None:
    torch.manual_seed(SEED)
    encoder = encoder_named("features")
    actor = make_actor(encoder, NetworkSpec((64, 128), 5, lstm_size=128)).to(DEVICE)
    obs = torch.randint(-5, 6, (16, 333, encoder.width), device=DEVICE).bfloat16()
    is_first = torch.rand(16, 333, device=DEVICE) < 0.1
    hidden, by_outputs = torch.randn(2, 333, 128, device=DEVICE), torch.randn(16, 333, 5, device=DEVICE).bfloat16()

    def run() -> list[torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            outputs = actor(obs, is_first, hidden)
            with torch.no_grad():
                played = actor.step(obs[0], is_first[0], hidden)
        gradients = torch.autograd.grad(outputs, list(actor.parameters()), by_outputs)
        return [outputs, *played, *gradients]

    with side_stream(DEVICE):
        for _ in range(2):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    obs.copy_(torch.randint(-5, 6, obs.shape, device=DEVICE))
    graph.replay()
    monkeypatch.setattr(actors, "may_run_kernels", lambda x, size: False)
    off = [off_by(tensor, plain) for tensor, plain in zip(found, run(), strict=True)]
    assert off[0] > 0, f"the outputs are those of the plain version, seed {SEED}"
    assert max(off) < 0.05, f"off by {off}, seed {SEED}"
