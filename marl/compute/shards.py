"""Sums over the shards of a run in one fixed order, whatever the number of ranks that compute them.

A run with `--exact_ranks S` is cut into S equal shards, and each rank computes S / ranks of them. The rows of a tensor
are those of its shards, one after the other. What is computed row by row is the same for any number of shards in a
tensor; what is summed over rows (gradients of weights, means) is summed in each shard and then over the shards as a
binary tree: ((0 + 1) + (2 + 3)) + ... A rank's shards are a subtree, so ranks can sum their part and then each other's.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional as F

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


def tree_sum(parts: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of tensors, or over a tensor's first dimension, as a binary tree; their number is a power of two."""
    if not isinstance(parts, torch.Tensor):
        parts = torch.stack(list(parts))
    while len(parts) > 1:
        parts = parts[::2] + parts[1::2]
    return parts[0]


def mean_by_shard(rows: torch.Tensor, shards: int | None) -> torch.Tensor:
    """The mean over all rows: of equal shards, the mean of their means."""
    if shards is None:
        return rows.mean(0)
    return tree_sum([shard.contiguous().mean(0) for shard in rows.chunk(shards)]) / shards


# --- dense layers


def linear_by_shard(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, shards: int, scale: torch.Tensor | None = None
) -> torch.Tensor:
    """x [..., K] @ (weight [N, K] * scale).T + bias [N]; each shard as if it were alone."""
    return _LinearByShard.apply(x, weight, bias, scale, shards)


class _LinearByShard(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor | None, shards: int
    ) -> torch.Tensor:
        scaled = weight if scale is None else weight * scale
        rows = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(rows, scaled, scale)
        ctx.shape, ctx.shards = x.shape, shards
        return _by_shard(_forward, rows, shards, scaled, bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, scaled, scale = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1])
        grad_x = _by_shard(torch.mm, flat, ctx.shards, scaled).view(ctx.shape) if ctx.needs_input_grad[0] else None
        grad_weights = _weight_gradients(flat, rows, ctx.shards)
        if scale is not None:
            grad_weights = grad_weights * scale
        return grad_x, _laid_out(tree_sum(grad_weights)), tree_sum(_sums(flat, ctx.shards)), None, None


def _forward(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.linear(rows, weight, bias)


def _by_shard(product: Callable[..., torch.Tensor], rows: torch.Tensor, shards: int, *matrices: torch.Tensor) -> Any:
    """product(rows, *matrices) with the bits that each shard's rows have alone.

    One product of all rows is up to twice as fast as one for each shard. Whether it rounds like those depends on the
    shapes and the library alone, so it is tried once, with random numbers, before it is used.
    """
    if shards == 1:
        return product(rows, *matrices)

    def each(rows: torch.Tensor, *matrices: torch.Tensor) -> torch.Tensor:
        return torch.cat([product(shard, *matrices) for shard in rows.chunk(shards)])

    same = _rounds_alike(product.__name__, product, each, shards, rows, *matrices)
    return (product if same else each)(rows, *matrices)


def _weight_gradients(gradient: torch.Tensor, rows: torch.Tensor, shards: int) -> torch.Tensor:
    """gradient.T @ rows of each shard, [S, N, K]."""

    def batched(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        by_shard = [tensor.view(shards, -1, tensor.shape[-1]) for tensor in (gradient, rows)]
        return torch.bmm(by_shard[0].mT, by_shard[1])

    def each(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([g.t() @ x for g, x in zip(gradient.chunk(shards), rows.chunk(shards), strict=True)])

    same = _rounds_alike("weights", batched, each, shards, gradient, rows)
    return (batched if same else each)(gradient, rows)


def _sums(rows: torch.Tensor, shards: int) -> torch.Tensor:
    """The sum of each shard's rows, [S, N]."""

    def batched(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(shards, -1, rows.shape[-1]).sum(1)

    def each(rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([shard.sum(0) for shard in rows.chunk(shards)])

    return (batched if _rounds_alike("sums", batched, each, shards, rows) else each)(rows)


_alike: dict[tuple, bool] = {}  # product, shards, shapes and library -> whether it rounds as the shards do alone


def _rounds_alike(
    name: str,
    product: Callable[..., torch.Tensor],
    each: Callable[..., torch.Tensor],
    shards: int,
    *tensors: torch.Tensor,
) -> bool:
    key = (name, shards, torch.backends.mkldnn.enabled, *(tensor.shape for tensor in tensors))
    if key not in _alike:
        generator = torch.Generator().manual_seed(1)  # training draws nothing from torch's own
        trial = [torch.randn(tensor.shape, generator=generator) for tensor in tensors]
        _alike[key] = torch.equal(product(*trial), each(*trial))
    return _alike[key]


# --- weights that are used several times, once for each turn


def replicate(weight: torch.Tensor, shards: int) -> torch.Tensor:
    """The weight once for each shard, [S, ...], without a copy; its gradient is summed as a tree."""
    return _Replicate.apply(weight, shards)


def linear_replicated(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x [..., K] @ weight.T + bias for replicated weight [S, N, K] and bias [S, N]: one product of fixed size each."""
    rows = x.reshape(len(weight), -1, x.shape[-1])
    return torch.baddbmm(bias[:, None], rows, weight.mT).view(*x.shape[:-1], weight.shape[1])


class _Replicate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, shards: int) -> torch.Tensor:
        return weight.expand(shards, *weight.shape)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _laid_out(tree_sum(gradient)), None


def _laid_out(gradient: torch.Tensor) -> torch.Tensor:
    """The gradient laid out as its weight is: DistributedDataParallel wants it so."""
    return gradient.new_empty(gradient.shape).copy_(gradient)
