"""Which of torch's two ways to multiply matrices is faster on this CPU, found out by trying."""

import platform
import time
from collections.abc import Callable
from typing import Any

import torch

mkldnn: Any = torch.backends.mkldnn  # torch's types have a descriptor for the bool `enabled`

ROUNDS, TRIALS = 3, 4  # oneDNN must be clearly faster in each of ROUNDS rounds of at most TRIALS trials
SECONDS = 1.0  # of all rounds, about
CLEARLY = 1.5  # a smaller gain is not worth different rounding from one machine to the next


def needs_measurement() -> bool:
    """Whether oneDNN may be slower than without: on ARM it mostly is, on x86 never."""
    return platform.machine() in ("aarch64", "arm64") and mkldnn.is_available()


def measure_onednn(step: Callable[[], None]) -> bool:
    """Whether a training step is clearly faster with oneDNN. Leaves oneDNN switched as it was.

    Something else that runs on the machine may slow down single trials: with and without take turns, the fastest of
    each counts, and one round without a clear gain is enough for off.
    """
    before = mkldnn.enabled
    try:
        return all(_is_clearly_faster(step) for _ in range(ROUNDS))
    finally:
        mkldnn.enabled = before


def _is_clearly_faster(step: Callable[[], None]) -> bool:
    best = {True: float("inf"), False: float("inf")}
    end = time.perf_counter() + SECONDS / ROUNDS
    for _ in range(TRIALS):
        for enabled in best:
            mkldnn.enabled = enabled
            begin = time.perf_counter()
            step()
            best[enabled] = min(best[enabled], time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    return CLEARLY * best[True] < best[False]
