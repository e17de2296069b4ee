"""Calls a loop of turn_loops.py or ppo_loops.py where its tensors are: compiled for the CPU, or as a GPU's kernel."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from marl.rollout import ppo_loops, turn_loops


def bind(name: str, items: int, device: torch.device, *arguments: Any) -> Callable[[], None]:
    """A call of the loop over `items`. Tensors are read and written where they are at each call; numbers are fixed."""
    if device.type == "cuda":
        from arena.backends.cuda import launch
        from marl.rollout import turn_kernels

        return partial(launch, getattr(turn_kernels, name), items, device, *arguments)
    arrays = tuple(a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments)
    loop = getattr(turn_loops, name, None) or getattr(ppo_loops, name)
    return partial(loop, *arrays)
