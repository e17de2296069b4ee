"""Numba's CUDA compiler, ready for use. Imported only where a CUDA device, or its simulator, is used."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

# numba-cuda up to 0.30 still calls names that numpy 2.5 has dropped.
for _old, _new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
    if not hasattr(np, _old):
        setattr(np, _old, getattr(np, _new))
numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # a small batch is the user's choice

from numba import cuda  # noqa: E402

from arena.jit import cached  # noqa: E402

__all__ = ["cuda", "cuda_kernel"]


def cuda_kernel(function: Callable, *callees: Callable, registers: int | None = None) -> Any:
    """A compiled kernel; callees as for `cached`. registers: at most for each thread."""
    limit = {} if registers is None or numba.config.ENABLE_CUDASIM else {"max_registers": registers}
    return cached(cuda.jit(cache=True, **limit), function, *callees)
