"""Comparison of tensors between ranks by SHA-256 digests: which tensor differs first, and on which ranks."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from marl.cli.wording import named_ranks, verb

Digests = list[tuple[str, str]]  # name and digest of each tensor of one rank


class OutOfSync(RuntimeError):
    """Ranks that should hold the same parameters do not."""


def digests_of(named: Iterable[tuple[str, torch.Tensor]]) -> Digests:
    return [(name, _digest(tensor)) for name, tensor in named]


def summary_of(digests: Digests) -> bytes:
    """One digest of all digests: ranks exchange only these 32 bytes as long as they agree."""
    return hashlib.sha256(repr(digests).encode()).digest()


def first_difference(digests_by_rank: list[Digests]) -> str:
    """Names the first tensor that differs between ranks, and the ranks that differ from the majority."""
    names = [[name for name, _ in digests] for digests in digests_by_rank]
    odd = _minority(names)
    if odd:
        return f"{named_ranks(odd)} of {len(names)} {verb(odd, 'has', 'have')} other parameters than the rest"
    for i, name in enumerate(names[0]):
        odd = _minority([digests[i][1] for digests in digests_by_rank])
        if odd:
            return f"{name} on {named_ranks(odd)} of {len(names)} differs from the other ranks"
    raise AssertionError("the summaries differ, the details do not")


def _digest(tensor: torch.Tensor) -> str:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()


def _minority(values: list[Any]) -> list[int]:
    """Ranks whose value is not the most common one."""
    keys = [repr(value) for value in values]
    usual = Counter(keys).most_common(1)[0][0]  # a tie goes to the value seen first: rank 0's
    return [rank for rank, key in enumerate(keys) if key != usual]
