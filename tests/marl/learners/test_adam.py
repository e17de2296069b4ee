"""Our Adam steps, saves and loads like torch's, and does not import torch's compiler."""

import copy
import math
import platform
import subprocess
import sys

import pytest
import torch
from marl.compute.adam_kernels import move_towards

from marl.learners.adam import Adam, flatten

SEED = 3


def alike(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal to the bit where our kernels round as torch's do (ARM), elsewhere nearly so."""
    exact = platform.machine() in ("aarch64", "arm64")
    return torch.equal(ours, theirs) if exact else torch.allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def trained(cls: type[torch.optim.Adam], steps: int, state: dict | None = None) -> tuple[torch.nn.Linear, dict]:
    """A layer after some steps, and the state of its optimizer; from an earlier state if given."""
    torch.manual_seed(SEED)
    layer = torch.nn.Linear(5, 3)
    optimizer = cls(list(layer.parameters()), 0.01, fused=True)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))  # its tensors become those of the optimizer
    for _ in range(steps):
        layer(torch.randn(7, 5)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in layer.parameters())
    return layer, optimizer.state_dict()


def test_what_another_device_has_saved_leaves_the_rate_in_its_tensor() -> None:
    """On a GPU a recorded graph reads it there; on a CPU it is a number."""
    layer = torch.nn.Linear(2, 2)
    on_cpu = Adam(list(layer.parameters()), 0.5, fused=True)
    rate = torch.tensor(0.25)
    on_gpu = Adam(list(layer.parameters()), rate, fused=True, capturable=True)
    on_gpu.load_state_dict(on_cpu.state_dict())
    assert on_gpu.param_groups[0]["lr"] is rate
    assert rate == 0.5
    assert on_gpu.param_groups[0]["capturable"]
    rate.fill_(0.125)
    on_cpu.load_state_dict(on_gpu.state_dict())
    assert on_cpu.param_groups[0]["lr"] == 0.125
    assert not isinstance(on_cpu.param_groups[0]["lr"], torch.Tensor)
    assert not on_cpu.param_groups[0]["capturable"]


def test_it_is_torchs_adam_to_the_bit_in_steps_and_states() -> None:
    for begin in (None, trained(torch.optim.Adam, 2)[1], trained(Adam, 2)[1]):
        (ours, our_state), (theirs, their_state) = trained(Adam, 3, begin), trained(torch.optim.Adam, 3, begin)
        assert torch.equal(ours.weight, theirs.weight), f"seed {SEED}"
        assert our_state["param_groups"] == their_state["param_groups"]
        for number, tensors in their_state["state"].items():
            assert all(torch.equal(our_state["state"][number][name], tensor) for name, tensor in tensors.items())


def test_a_step_does_not_import_torchs_compiler() -> None:
    code = (
        "import sys, torch; from marl.learners.adam import Adam\n"
        "p = torch.zeros(2, requires_grad=True); o = Adam([p], 0.1, fused=True)\n"
        "p.sum().backward(); o.step(); o.zero_grad(); o.load_state_dict(o.state_dict())\n"
        "print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False False\n", done.stderr


@pytest.mark.parametrize("max_norm", [0.5, 1e3, float("inf")])
def test_direct_steps_and_clipping_are_torchs_to_the_bit(max_norm: float) -> None:
    def layers() -> tuple[torch.nn.Module, list[torch.nn.Parameter]]:
        torch.manual_seed(SEED)
        made = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Linear(2, 2))
        return made, list(made.parameters())  # the last layer has no gradients

    (ours, our_parameters), (theirs, their_parameters) = layers(), layers()
    our_optimizer, their_optimizer = (cls(ps, 0.01, fused=True) for cls, ps in
                                      ((Adam, our_parameters), (torch.optim.Adam, their_parameters)))  # fmt: skip
    for step in range(6):
        obs = torch.randn(7, 5)
        for network in (ours, theirs):
            network[:3](obs).square().sum().backward()
        norms = our_optimizer.clip_directly(max_norm), torch.nn.utils.clip_grad_norm_(their_parameters, max_norm)
        assert torch.equal(*norms), f"seed {SEED}"
        skip = torch.tensor(float(step == 3))
        if not skip:
            our_optimizer.step_directly()
        their_optimizer.found_inf = skip
        their_optimizer.step()
        our_optimizer.clear_gradients()
        their_optimizer.zero_grad(set_to_none=True)
        assert all(map(torch.equal, our_parameters, their_parameters)), f"seed {SEED}, step {step}"
    our_states, their_states = (optimizer.state_dict()["state"] for optimizer in (our_optimizer, their_optimizer))
    assert our_states.keys() == their_states.keys()
    for number, tensors in their_states.items():
        assert all(torch.equal(our_states[number][name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("max_norm", [0.5, 1e3, float("inf")])
def test_flat_steps_are_torchs_and_saved_alike(max_norm: float) -> None:
    def layers(cls: type[torch.optim.Adam]) -> tuple[torch.nn.Module, torch.optim.Adam]:
        torch.manual_seed(SEED)
        made = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 5))
        return made, cls(list(made.parameters()), 0.01, fused=True)

    (theirs, their_optimizer), (ours, our_optimizer) = layers(torch.optim.Adam), layers(Adam)
    weights = flatten(ours.parameters())
    gradients = torch.zeros_like(weights)
    our_optimizer.use_flat(weights, gradients)
    for step in range(6):
        theirs(torch.randn(7, 16)).square().sum().backward()
        gradients.copy_(torch.cat([parameter.grad.flatten() for parameter in theirs.parameters()]))
        skip = step == 4
        norm = our_optimizer.clip_and_step(max_norm, torch.tensor(float(skip))).item()
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm).item(), rel=1e-6)
        their_optimizer.found_inf = torch.tensor(float(skip))
        their_optimizer.step()
        their_optimizer.zero_grad()
        assert all(map(alike, ours.parameters(), theirs.parameters())), f"seed {SEED}, step {step}"
        states = [optimizer.state_dict()["state"] for optimizer in (our_optimizer, their_optimizer)]
        for our_state, their_state in zip(states[0].values(), states[1].values(), strict=True):
            assert all(alike(our_state[name], tensor) for name, tensor in their_state.items())
        if step == 3:  # each goes on from the other's state
            saved = [copy.deepcopy(optimizer.state_dict()) for optimizer in (our_optimizer, their_optimizer)]
            their_optimizer.load_state_dict(saved[0])
            our_optimizer.load_state_dict(saved[1])


def test_flat_steps_are_skipped_if_a_gradient_is_not_finite() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = Adam(list(layer.parameters()), 0.01, fused=True)
    weights, gradients = flatten(layer.parameters()), torch.ones(8)
    optimizer.use_flat(weights, gradients)
    assert optimizer.clip_and_step(1.0).item() == pytest.approx(8**0.5)
    before, state = weights.clone(), copy.deepcopy(optimizer.state_dict())
    for bad in (float("nan"), float("inf")):
        gradients[5] = bad
        assert not math.isfinite(optimizer.clip_and_step(1.0))
        assert torch.equal(weights, before)
        for number, tensors in optimizer.state_dict()["state"].items():
            assert all(torch.equal(tensor, state["state"][number][name]) for name, tensor in tensors.items())


def test_autograd_adds_to_flat_gradients_until_they_are_cleared() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = Adam(list(layer.parameters()), 0.01, fused=True)
    weights = flatten(layer.parameters())
    gradients = torch.zeros_like(weights)
    optimizer.use_flat(weights, gradients, accumulate=True)
    for backward_passes in (1, 2):
        for _ in range(backward_passes):
            layer(torch.ones(4, 3)).sum().backward()
        assert gradients.tolist() == [4 * backward_passes] * 8
        before = weights.clone()
        optimizer.clip_and_step(1.0)
        assert (weights < before).all()
        optimizer.clear_gradients()
        assert not gradients.any()


def test_moving_towards_weights_is_torchs_lerp() -> None:
    generator = torch.Generator().manual_seed(SEED)
    targets, weights = torch.randn(2, 1001, generator=generator)
    expected = targets.lerp(weights, 0.005)
    move_towards(targets.numpy(), weights.numpy(), 0.005)
    assert alike(targets, expected), f"seed {SEED}"
