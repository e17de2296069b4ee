"""Sums over shards: each shard as if it were alone, and then a binary tree over the shards."""

import pytest
import torch
from torch.nn import functional as F

from marl.compute import shards
from marl.compute.linear import linear
from marl.compute.shards import linear_by_shard, mean_by_shard, replicate, rows_are_of, rows_of_shards, tree_sum

SEED = 20_261_116


@pytest.fixture(autouse=True)
def one_thread():
    print(f"seed {SEED}")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def gradients(x, gradient, weight, bias, count, scale=None) -> list[torch.Tensor]:
    """Outputs, and the gradients by x, weight and bias."""
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    y = linear_by_shard(*leaves, count, scale)
    y.backward(gradient)
    return [y.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("fast", [True, False], ids=["one product if it rounds alike", "one for each shard"])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(48, 80, 32), (24, 33, 5), (6, 7, 3)])
def test_a_shard_is_computed_as_if_it_were_alone(rows, inputs, outputs, fast, scaled, monkeypatch) -> None:
    if not fast:
        monkeypatch.setattr(shards, "_rounds_alike", lambda *_: False)
    generator = torch.Generator().manual_seed(SEED)
    x, gradient = (torch.randn(4 * rows, width, generator=generator) for width in (inputs, outputs))
    weight, bias = torch.randn(outputs, inputs, generator=generator), torch.randn(outputs, generator=generator)
    scale = torch.rand(inputs, generator=generator) if scaled else None
    y, grad_x, grad_weight, grad_bias = gradients(x, gradient, weight, bias, 4, scale)
    plain = F.linear(x, weight if scale is None else weight * scale, bias)
    torch.testing.assert_close(y, plain)
    for count in (1, 2):
        parts = zip(x.chunk(4 // count), gradient.chunk(4 // count), strict=True)
        alone = list(zip(*(gradients(a, b, weight, bias, count, scale) for a, b in parts), strict=True))
        assert torch.equal(y, torch.cat(alone[0]))
        assert torch.equal(grad_x, torch.cat(alone[1]))
        assert torch.equal(grad_weight, tree_sum(alone[2]))
        assert torch.equal(grad_bias, tree_sum(alone[3]))


def test_a_tree_adds_neighbours_first() -> None:
    big, small = 2.0**25, 1.0  # big + small is big again
    assert tree_sum(torch.tensor([big, -big, small, small])).item() == 2
    assert tree_sum([torch.tensor(number) for number in (big, small, -big, small)]).item() == 0


def test_a_replicated_weight_gets_the_tree_of_its_gradients() -> None:
    weight = torch.zeros(1, requires_grad=True)
    (replicate(weight, 4)[:, 0] * torch.tensor([2.0**25, 1.0, -(2.0**25), 1.0])).sum().backward()
    assert weight.grad.item() == 0


def test_the_mean_of_shards_is_the_mean_of_their_means() -> None:
    rows = torch.arange(24.0).view(8, 3)
    assert torch.equal(mean_by_shard(rows, 4), mean_by_shard(rows, None))


def test_layers_know_the_shards_of_their_rows_inside_the_context_alone() -> None:
    x, weight, bias = torch.ones(4, 2), torch.ones(3, 2), torch.zeros(3)
    with rows_of_shards(2):
        assert rows_are_of() == 2
        assert torch.equal(linear(x, weight, bias), torch.full((4, 3), 2.0))
    assert rows_are_of() is None
