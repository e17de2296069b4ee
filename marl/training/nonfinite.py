"""Numbers that are not finite: when they end a run, and the error that ends it."""

from collections.abc import Iterable

import torch

SKIPS_IN_A_ROW = 20  # skipped updates that end a run: fp16 may need this many to find its loss scale
BAD_BATCH = "not_finite.pt"  # file in the run folder with the last minibatch of every rank


class NotFinite(RuntimeError):
    """Gradients or weights are not finite; raised on all ranks."""


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())
