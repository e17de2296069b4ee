"""Muon: which weights move like Adam's, how far and in which direction matrices move, and that nothing moves when
nothing may."""

import math

import pytest
import torch
from torch import nn

from marl.learners.adam import Adam, views_of
from marl.learners.muon import STEP, Muon, nearest_orthogonal
from marl.networks.layers import MLP, Head

SEED, LR = 5, 0.01
SHAPES = [(24, 24), (64, 300), (300, 64), (1, 7), (7, 1)]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED))


def exact(matrix: torch.Tensor) -> torch.Tensor:
    u, _, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    return u @ v


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_singular_values_become_about_one(shape, size, dtype):
    matrix = random(*shape) * size
    found = nearest_orthogonal(matrix, dtype)
    assert found.shape == matrix.shape
    # A square random matrix has singular values near 0, which five rounds do not bring up to 1.
    values = torch.linalg.svdvals(found.double())
    assert values.max() < 1.3, f"seed {SEED}"
    assert values.median() > 0.65, f"seed {SEED}"
    cosine = nn.functional.cosine_similarity(found.double().flatten(), exact(matrix).flatten(), dim=0)
    assert cosine > 0.95, f"seed {SEED}"


def test_no_gradient_is_no_direction():
    assert not nearest_orthogonal(torch.zeros(4, 6), torch.float32).any()


def a_network() -> MLP:
    torch.manual_seed(SEED)
    return MLP(16, (24, 8), 5, 0.01)


def pair() -> tuple[Muon, Adam]:
    return Muon(a_network(), LR), Adam(a_network(), LR)


def step(*optimizers: Adam, size: float = 1.0, number: int = 0) -> None:
    generator = torch.Generator().manual_seed(SEED + number)
    gradients = size * torch.randn(optimizers[0].gradients.shape, generator=generator)
    for optimizer in optimizers:
        optimizer.gradients.copy_(gradients)
        optimizer.step(0.0)


def is_hidden_matrix(name: str, parameter: torch.Tensor) -> bool:
    return parameter.ndim == 2 and not name.startswith("head")


def test_heads_and_biases_move_like_adams_and_matrices_do_not():
    names = [(name, p) for name, p in a_network().named_parameters()]
    muon, adam = pair()
    for number in range(5):
        step(muon, adam, number=number)
    for (name, parameter), ours, its in zip(names, muon.parameters, adam.parameters, strict=True):
        assert torch.equal(ours, its) != is_hidden_matrix(name, parameter), f"{name}, seed {SEED}"


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_matrix_moves_by_the_same_length_whatever_the_size_of_its_gradient(size):
    optimizer, _ = pair()
    before = [p.detach().clone() for p in optimizer.parameters]
    step(optimizer, size=size)
    matrix = optimizer.parameters[0].detach() - before[0]
    direction = exact(views_of(optimizer.gradients, optimizer.parameters)[0])
    assert matrix.square().mean().sqrt() == pytest.approx(LR * STEP, rel=0.25)
    assert nn.functional.cosine_similarity(matrix.double().flatten(), -direction.flatten(), dim=0) > 0.95


def test_the_direction_is_that_of_the_averaged_gradients():
    optimizer, _ = pair()
    step(optimizer)
    before = optimizer.parameters[0].detach().clone()
    optimizer.gradients.zero_()
    optimizer.step(0.0)
    moved = optimizer.parameters[0].detach() - before
    assert moved.norm() > 0.5 * LR * STEP * math.sqrt(24 * 16), "the average goes on"


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_a_step_that_is_skipped_or_not_finite_changes_nothing(bad):
    optimizer, _ = pair()
    step(optimizer)
    weights = optimizer.weights.clone()
    optimizer.gradients.fill_(1.0 if bad is None else bad)
    optimizer.step(0.5, torch.ones(()) if bad is None else None)
    assert torch.equal(optimizer.weights, weights)


def test_it_goes_on_from_its_own_state_bit_by_bit_and_from_one_of_adam():
    first, adam = pair()
    for number in range(3):
        step(first, adam, number=number)
    second = Muon(a_network(), LR)
    second.weights.copy_(first.weights)
    second.load_state_dict(first.state_dict())
    step(first, number=3)
    step(second, number=3)
    assert torch.equal(first.weights, second.weights)
    second.load_state_dict(adam.state_dict())
    assert torch.equal(second.exp_avg, adam.exp_avg)


def test_only_hidden_matrices_are_found_in_a_policy():
    network = nn.Sequential(nn.Linear(6, 4), Head(4, 5, 0.01), nn.LSTMCell(4, 8))
    optimizer = Muon(network, LR)
    found = [tuple(p.shape) for p, flag in zip(optimizer.parameters, optimizer._is_matrix, strict=True) if flag]
    assert found == [(4, 6), (32, 4), (32, 8)]
