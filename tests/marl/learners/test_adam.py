"""Our Adam steps, skips, saves and loads like torch's. That a step does not import torch's compiler, which takes
seconds, is a part of tests/marl/cli/test_start_imports.py."""

import copy
import io
import math

import pytest
import torch
from torch import nn

from marl.learners.adam import Adam, flatten, views_of

SEED = 3
# Ours corrects the bias in float32, where 1 - 0.999 is exact to 5e-5 of itself: a share of a step, over fifty of them.
LR, NEAR = 0.01, 5e-6


def a_network() -> nn.Module:
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 5))


class Pair:
    """Our Adam and torch's on two copies of a network; both are given the same gradients."""

    def __init__(self, max_norm: float = 0.0) -> None:
        self.ours, self.theirs, self._max_norm = a_network(), a_network(), max_norm
        self.our_adam, self.their_adam = Adam(self.ours, LR), torch.optim.Adam(self.theirs.parameters(), LR)
        self._generator = torch.Generator().manual_seed(SEED)

    def step(self, size: float = 1.0, spoil: float | None = None, skip: bool = False) -> None:
        """size: of the gradients. spoil: what one of them is instead. Torch's Adam does not step along such, nor with
        skip."""
        gradients = size * torch.randn(self.our_adam.gradients.shape, generator=self._generator)
        if spoil is not None:
            gradients[7] = spoil
        self.our_adam.gradients.copy_(gradients)
        norm = self.our_adam.step(self._max_norm, torch.tensor(float(skip)))
        if spoil is not None:
            assert not math.isfinite(norm)
        if spoil is not None or skip:
            return
        parameters = list(self.theirs.parameters())
        for parameter, gradient in zip(parameters, views_of(gradients, parameters), strict=True):
            parameter.grad = gradient.clone()
        expected = nn.utils.clip_grad_norm_(parameters, self._max_norm or math.inf)
        assert norm.item() == pytest.approx(expected.item(), rel=1e-5), f"seed {SEED}"
        self.their_adam.step()

    def assert_alike(self, where: object = "") -> None:
        for mine, its in zip(self.ours.parameters(), self.theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, its, rtol=NEAR, atol=NEAR, msg=f"{where}, seed {SEED}")
        states = [optimizer.state_dict()["state"] for optimizer in (self.our_adam, self.their_adam)]
        assert states[0].keys() == states[1].keys()
        for number, tensors in states[1].items():
            assert states[0][number].keys() == tensors.keys()
            for name, tensor in tensors.items():
                torch.testing.assert_close(
                    states[0][number][name], tensor, rtol=1e-4, atol=1e-7, msg=f"{where}, {name}"
                )


@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1e3])
def test_fifty_steps_are_torchs_also_around_skipped_and_spoilt_ones(max_norm) -> None:
    pair = Pair(max_norm)
    for number in range(50):
        pair.step(size=10.0 ** (number % 5 - 3), skip=number % 7 == 3)
        if number % 9 == 4:
            pair.step(spoil=(math.nan, math.inf, -math.inf)[number % 3])
        pair.assert_alike(number)
    assert pair.our_adam.steps == 50 - 7


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_step_along_a_gradient_that_is_not_finite_changes_nothing(bad) -> None:
    pair = Pair(0.5)
    pair.step()
    weights, state = pair.our_adam.weights.clone(), copy.deepcopy(pair.our_adam.state_dict())
    pair.step(spoil=bad)
    pair.step(skip=True)
    assert torch.equal(pair.our_adam.weights, weights)
    for number, tensors in pair.our_adam.state_dict()["state"].items():
        assert all(torch.equal(tensor, state["state"][number][name]) for name, tensor in tensors.items())


def through_a_file(state: dict) -> dict:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_each_goes_on_from_the_others_file() -> None:
    pair = Pair(0.5)
    for number in range(12):
        pair.step(size=0.3)
        if number in (3, 7):
            ours, theirs = (through_a_file(each.state_dict()) for each in (pair.our_adam, pair.their_adam))
            pair.our_adam.load_state_dict(theirs)
            group = pair.their_adam.param_groups[0]
            known = {name: value for name, value in group.items() if name != "params"}
            pair.their_adam.load_state_dict(ours)
            pair.their_adam.param_groups[0].update({**known, **pair.their_adam.param_groups[0]})
        pair.assert_alike(number)


def test_a_state_of_torchs_fused_adam_on_a_gpu_is_read() -> None:
    """As in older checkpoints: the rate may be a tensor, and the file has more options than ours."""
    theirs = a_network()
    optimizer = torch.optim.Adam(theirs.parameters(), torch.tensor(0.25), capturable=True, foreach=False)
    state = optimizer.state_dict()
    for number, parameter in enumerate(theirs.parameters()):
        moments = {"exp_avg": torch.full_like(parameter, 0.5), "exp_avg_sq": torch.full_like(parameter, 2.0)}
        state["state"][number] = {"step": torch.tensor(17.0), **moments}
    ours = Adam(a_network(), LR)
    rate = ours.lr
    ours.load_state_dict(through_a_file(state))
    assert ours.lr is rate, "a recorded CUDA graph reads it there"
    assert (ours.lr, ours.steps) == (0.25, 17)
    assert (ours.exp_avg == 0.5).all()
    assert (ours.exp_avg_sq == 2).all()


def test_a_state_before_the_first_step_begins_anew() -> None:
    pair = Pair()
    for fresh in (Adam(a_network(), 0.5), torch.optim.Adam(a_network().parameters(), 0.5)):
        pair.step()
        pair.our_adam.load_state_dict(through_a_file(fresh.state_dict()))
        assert (pair.our_adam.lr, pair.our_adam.steps) == (0.5, 0)
        assert not pair.our_adam.exp_avg.any()
        assert not pair.our_adam.exp_avg_sq.any()
        assert pair.our_adam.state_dict()["state"] == {}


def test_the_weights_of_a_network_are_views_of_one_tensor() -> None:
    network = a_network()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    flat = flatten(network.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    flat.zero_()
    assert not any(tensor.any() for tensor in network.state_dict().values())
    network.load_state_dict(before)
    assert torch.equal(flat, torch.cat([tensor.flatten() for tensor in before.values()]))


def test_gradients_are_taken_from_the_parameters_and_leave_nothing_there() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))  # the second one is not used
    optimizer = Adam(network, LR)
    for passes in (1, 2):
        for _ in range(passes):
            network[0](torch.ones(4, 3)).sum().backward()
        optimizer.take_gradients()
        assert optimizer.gradients.tolist() == [4.0 * passes] * 8 + [0.0] * 6
        assert all(parameter.grad is None for parameter in network.parameters())
