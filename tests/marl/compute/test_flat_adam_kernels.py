"""Clipping and steps over flat tensors on a GPU are torch's, within rounding; without a GPU by Triton's interpreter."""

import copy
import math

import pytest
import torch
from helpers.triton_kernels import need_triton

from marl.compute.adam import Adam, FlatOnGpu, flatten

SEED = 5
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if HAS_CUDA else torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    need_triton()


def layers(cls: type[torch.optim.Adam]) -> tuple[torch.nn.Module, torch.optim.Adam]:
    torch.manual_seed(SEED)
    made = torch.nn.Sequential(torch.nn.Linear(16, 70), torch.nn.ReLU(), torch.nn.Linear(70, 5)).to(DEVICE)
    return made, cls(list(made.parameters()), torch.tensor(0.01, device=DEVICE), fused=True, capturable=HAS_CUDA)


def flat(optimizer: Adam, layer: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and gradients."""
    weights = flatten(layer.parameters())
    gradients = torch.zeros_like(weights)
    optimizer._flat = FlatOnGpu(optimizer, weights, gradients)
    return weights, gradients


@pytest.mark.parametrize("max_norm", [0.5, 1e3, math.inf])
def test_steps_are_torchs_and_saved_alike(max_norm) -> None:
    print(f"seed {SEED}")
    (theirs, their_optimizer), (ours, our_optimizer) = layers(torch.optim.Adam), layers(Adam)
    _, gradients = flat(our_optimizer, ours)
    for step in range(6):
        theirs(torch.randn(7, 16, device=DEVICE)).square().sum().backward()
        gradients.copy_(torch.cat([parameter.grad.flatten() for parameter in theirs.parameters()]))
        if step == 2:  # within a recorded graph the rate changes like this
            for optimizer in (our_optimizer, their_optimizer):
                optimizer.param_groups[0]["lr"].fill_(0.003)
        skip = torch.tensor(float(step == 4), device=DEVICE)
        norm = our_optimizer.clip_and_step(max_norm, skip).item()
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm).item(), rel=1e-5)
        their_optimizer.found_inf = skip.clone()
        their_optimizer.step()
        their_optimizer.zero_grad()
        pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
        states = [optimizer.state_dict()["state"] for optimizer in (our_optimizer, their_optimizer)]
        for our_state, their_state in zip(states[0].values(), states[1].values(), strict=True):
            pairs += [(our_state[name], tensor) for name, tensor in their_state.items()]
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7, msg=f"seed {SEED}, step {step}")
        if step == 3:  # each goes on from the other's state
            saved = [copy.deepcopy(optimizer.state_dict()) for optimizer in (our_optimizer, their_optimizer)]
            their_optimizer.load_state_dict(saved[0])
            our_optimizer.load_state_dict(saved[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_step_is_skipped_if_a_gradient_is_not_finite(bad) -> None:
    layer, optimizer = layers(Adam)
    weights, gradients = flat(optimizer, layer)
    gradients.fill_(1.0)
    assert optimizer.clip_and_step(1.0).item() == pytest.approx(len(weights) ** 0.5)
    before, state = weights.clone(), copy.deepcopy(optimizer.state_dict())
    gradients[5] = bad
    assert not math.isfinite(optimizer.clip_and_step(1.0).item())
    assert torch.equal(weights, before)
    for number, tensors in optimizer.state_dict()["state"].items():
        assert all(torch.equal(tensor, state["state"][number][name]) for name, tensor in tensors.items())


@pytest.mark.needs_cuda
def test_steps_can_be_recorded_as_a_graph() -> None:
    layer, optimizer = layers(Adam)
    weights, gradients = flat(optimizer, layer)
    gradients.normal_()
    optimizer.clip_and_step(1.0)
    torch.cuda.synchronize()
    graph, found = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        optimizer.clip_and_step(1.0)
    for rate in (0.01, 0.0, 0.02):
        before = weights.clone()
        optimizer.param_groups[0]["lr"].fill_(rate)
        graph.replay()
        found.append((weights - before).abs().max().item())
    assert found[1] == 0
    assert 0 < found[0] < found[2]
    assert optimizer.state_dict()["state"][0]["step"].item() == 4
