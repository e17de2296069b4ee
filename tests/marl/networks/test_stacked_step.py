"""A step of two stacked networks is torch's clipping, Adam and lerp, within rounding; without a GPU interpreted."""

import math

import pytest
import torch
from helpers.triton_kernels import need_triton

from arena.encoders import encoder_named
from marl.compute.adam import Adam, flatten
from marl.networks import stacked_pass, stacked_step
from marl.networks.actors import make_actor
from marl.networks.dense_pass import Gradients, dense_layers
from marl.networks.spec import NetworkSpec
from marl.networks.stacked_pass import StackedPass, WideRows
from marl.networks.stacked_step import StackedStep

SEED = 47
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if HAS_CUDA else torch.device("cpu")
DTYPE = torch.bfloat16 if HAS_CUDA else torch.float32
TAU, MAX_NORM, RATES = 0.05, 3.0, (0.01, 0.002)


@pytest.fixture(autouse=True)
def kernels(monkeypatch) -> None:
    if not HAS_CUDA:
        for module in (stacked_pass, stacked_step):
            monkeypatch.setattr(module, "BLOCK", 1 << 12)
        monkeypatch.setattr(stacked_step, "PARTS", 2)
    need_triton()


def some_networks() -> list[torch.nn.Module]:
    torch.manual_seed(SEED)
    return [make_actor(encoder_named("features"), NetworkSpec((24, 20), 4)).to(DEVICE) for _ in range(4)]


def some_optimizers(networks: list[torch.nn.Module], cls: type[torch.optim.Adam]) -> list[torch.optim.Adam]:
    rates = [torch.tensor(rate, device=DEVICE) for rate in RATES]
    pairs = zip(networks, rates, strict=False)
    return [cls(list(net.parameters()), rate, fused=True, capturable=HAS_CUDA) for net, rate in pairs]


def test_steps_targets_and_copies() -> None:
    """Of the third update one network's gradient is not finite: it stays, all else moves."""
    print(f"seed {SEED}")
    theirs, ours = some_networks(), some_networks()
    their_optimizers, our_optimizers = some_optimizers(theirs, torch.optim.Adam), some_optimizers(ours, Adam)
    flats = [flatten([*a.parameters(), *b.parameters()]).view(2, -1) for a, b in (ours[:2], ours[2:])]
    gradients = Gradients(*ours[:2]).flat.view(2, -1)
    wide = WideRows(encoder_named("features").width, None, 1, 6, DTYPE, DEVICE)
    online, targets = (
        StackedPass(dense_layers(net), flat, wide.x[0]) for net, flat in zip(ours[::2], flats, strict=True)
    )
    step = StackedStep(our_optimizers, online, targets, gradients)
    for number in range(4):
        gradients.normal_(std=0.02).mul_(torch.tensor([[1.0], [10.0]], device=DEVICE))
        if number == 2:
            gradients[1, 7] = math.nan
        step(MAX_NORM, TAU)
        norms = []
        for i, (net, target, optimizer) in enumerate(zip(theirs, theirs[2:], their_optimizers, strict=False)):
            torch.nn.utils.vector_to_parameters(gradients[i], grads := [torch.empty_like(p) for p in net.parameters()])
            for parameter, gradient in zip(net.parameters(), grads, strict=True):
                parameter.grad = gradient.clone()
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM))
            if norms[-1].isfinite():
                optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), TAU)
        torch.testing.assert_close(step.norms, torch.stack((*norms, sum(norms))), equal_nan=True)
        for i, (mine, its) in enumerate(zip(ours, theirs, strict=True)):
            for a, b in zip(mine.parameters(), its.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7, msg=f"network {i}, step {number}, seed {SEED}")
        for mine, its in zip(our_optimizers, their_optimizers, strict=True):
            for state, expected in zip(*(each.state_dict()["state"].values() for each in (mine, its)), strict=True):
                for name, tensor in expected.items():
                    torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-7, msg=f"{name}, step {number}")
    for each in (online, targets):
        made = [copy.clone() for copy in each.copies]
        each.take_weights()
        assert all(map(torch.equal, made, each.copies))
    assert sum(tensor.abs().sum() for tensor in online.copies) > 0
