"""Which of torch's two ways to multiply matrices is faster on this CPU, found out by trying."""

import platform
import time
from collections.abc import Sequence

import torch
from torch import nn

TRIALS = 5
CLEARLY = 1.15  # a smaller gain is not worth different rounding from one start to the next


def choose_onednn(inputs: int, body: Sequence[int], rows: int) -> bool:
    """Switch oneDNN off if this network trains clearly faster without it, which happens on ARM; says if it is on.

    On x86 it is never slower, so nothing is measured there.
    """
    if platform.machine() in ("aarch64", "arm64") and torch.backends.mkldnn.is_available():
        seconds = {enabled: _training_seconds(enabled, inputs, body, rows) for enabled in (True, False)}
        torch.backends.mkldnn.enabled = seconds[True] < CLEARLY * seconds[False]
    return torch.backends.mkldnn.enabled


def _training_seconds(enabled: bool, inputs: int, body: Sequence[int], rows: int) -> float:
    torch.backends.mkldnn.enabled = enabled
    widths = [inputs, *body]
    layers = [layer for a, b in zip(widths, body, strict=False) for layer in (nn.Linear(a, b), nn.ReLU())]
    net, batch = nn.Sequential(*layers), torch.zeros(rows, inputs)
    best = float("inf")
    for _ in range(TRIALS):
        begin = time.perf_counter()
        net(batch).sum().backward()
        best = min(best, time.perf_counter() - begin)
    return best
