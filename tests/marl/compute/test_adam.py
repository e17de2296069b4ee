"""Our Adam steps, saves and loads like torch's, and does not import torch's compiler."""

import copy
import subprocess
import sys

import torch

from marl.compute.adam import Adam

SEED = 3


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


def test_it_is_torchs_adam_to_the_bit_in_steps_and_states() -> None:
    for begin in (None, trained(torch.optim.Adam, 2)[1], trained(Adam, 2)[1]):
        (ours, our_state), (theirs, their_state) = trained(Adam, 3, begin), trained(torch.optim.Adam, 3, begin)
        assert torch.equal(ours.weight, theirs.weight), f"seed {SEED}"
        assert our_state["param_groups"] == their_state["param_groups"]
        for number, tensors in their_state["state"].items():
            assert all(torch.equal(our_state["state"][number][name], tensor) for name, tensor in tensors.items())


def test_a_step_does_not_import_torchs_compiler() -> None:
    code = (
        "import sys, torch; from marl.compute.adam import Adam\n"
        "p = torch.zeros(2, requires_grad=True); o = Adam([p], 0.1, fused=True)\n"
        "p.sum().backward(); o.step(); o.zero_grad(); o.load_state_dict(o.state_dict())\n"
        "print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "False False\n", done.stderr
