"""Sums over the shards of a run in one fixed order, whatever the number of ranks that compute them.

A run with `--exact_ranks S` is cut into S equal shards, and each rank computes S / ranks of them. The rows of a tensor
are those of its shards, one after the other. What is computed row by row is the same for any number of shards in a
tensor; what is summed over rows (gradients of weights, means) is summed in each shard and then over the shards as a
binary tree: ((0 + 1) + (2 + 3)) + ... A rank's shards are a subtree, so ranks can sum their part and then each other's.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_local = threading.local()


@contextmanager
def rows_of_shards(count: int) -> Iterator[None]:
    """Inside, networks in this thread are called with rows of this many shards."""
    before, _local.count = rows_are_of(), count
    try:
        yield
    finally:
        _local.count = before


def rows_are_of() -> int | None:
    """The number of shards in the rows that networks are called with; None: the order of sums does not matter."""
    return getattr(_local, "count", None)


def tree_sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of tensors as a binary tree; their number is a power of two."""
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def mean_by_shard(rows: torch.Tensor, shards: int | None) -> torch.Tensor:
    """The mean over all rows: of equal shards, the mean of their means."""
    if shards is None:
        return rows.mean(0)
    return tree_sum([shard.contiguous().mean(0) for shard in rows.chunk(shards)]) / shards


def replicate(weight: torch.Tensor, shards: int) -> torch.Tensor:
    """The weight once for each shard, [S, ...], without a copy; its gradient is summed as a tree."""
    return _Replicate.apply(weight, shards)


def linear_by_shard(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x [..., K] @ weight.T + bias for replicated weight [S, N, K] and bias [S, N]: one product of fixed size each."""
    rows = x.reshape(len(weight), -1, x.shape[-1])
    return torch.baddbmm(bias[:, None], rows, weight.mT).view(*x.shape[:-1], weight.shape[1])


class _Replicate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, shards: int) -> torch.Tensor:
        return weight.expand(shards, *weight.shape)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = tree_sum(gradient.unbind())
        # DistributedDataParallel wants gradients laid out as their weights are.
        return total.new_empty(total.shape).copy_(total), None
