"""Which of torch's two ways to multiply matrices is faster on this CPU, found out by trying."""

import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from arena.encoders import encoder_named
from marl.config.train_config import TrainConfig

_mkldnn: Any = torch.backends.mkldnn  # torch's types have a descriptor for the bool `enabled`

TRIALS = 12
CLEARLY = 1.5  # a smaller gain is not worth different rounding from one start to the next


def choose_onednn(config: TrainConfig, before: bool | None = None) -> bool:
    """Switch oneDNN off on ARM, where it is mostly slower, unless this network trains clearly faster with it.

    On x86 it is never slower, so nothing is measured there. What was chosen `before` stays. Says if it is on.
    """
    inputs, body = encoder_named(config.network.encoder).width, config.network.body
    rows = getattr(config, config.learner_section).batch_size
    if before is not None:
        _mkldnn.enabled = before
    elif platform.machine() in ("aarch64", "arm64") and _mkldnn.is_available():
        train = _one_step(inputs, body, rows)
        best = {True: float("inf"), False: float("inf")}
        for _ in range(TRIALS):  # by turns, so that whatever else goes on here disturbs both
            for enabled in best:
                _mkldnn.enabled = enabled
                begin = time.perf_counter()
                train()
                best[enabled] = min(best[enabled], time.perf_counter() - begin)
        _mkldnn.enabled = CLEARLY * best[True] < best[False]
    return _mkldnn.enabled


def _one_step(inputs: int, body: Sequence[int], rows: int) -> Callable[[], None]:
    widths = [inputs, *body]
    layers = [layer for a, b in zip(widths, body, strict=False) for layer in (nn.Linear(a, b), nn.ReLU())]
    net, batch = nn.Sequential(*layers), torch.zeros(rows, inputs)
    return lambda: net(batch).sum().backward()
