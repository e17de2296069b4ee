"""Factors of the learning rate: scaling with the number of ranks, and warm-up."""

import math


def lr_factor(scaling: str, world: int) -> float:
    """Factor of the learning rate for `world` ranks, whose batches together count as one batch."""
    return {"none": 1.0, "linear": float(world), "sqrt": math.sqrt(world)}[scaling]


def warmup(update: int, updates: int) -> float:
    """A linear rise from 1/updates at update 0 to 1 at the last update of the warm-up, then 1."""
    return 1.0 if updates <= 0 else min(1.0, (update + 1) / updates)
