"""Loops that run an encoder over any seats of a batch. A seat is match * 6 + snake.

Templates as in loops.py: `encode`, `share` and `SPARSE` stand for those of an encoder. Compiled per encoder, since
compiling takes seconds and most programs use one. Seats of a match that stand together share its measurements.
"""

from functools import cache
from typing import Any

from numba import prange

from arena.backends.loops import specialise
from arena.encoders import Encoder
from arena.jit import njit, njit_parallel
from arena.rules import SNAKES

CHUNK = 32 * SNAKES  # seats that one core takes at a stretch: whole matches
SPARSE = False


def encode(match, snake, shared, out):
    raise NotImplementedError


def share(match):
    raise NotImplementedError


def serial(state, seats, out):
    last = -1
    shared = share(state[0])
    for i in range(seats.shape[0]):
        seat = int(seats[i])
        b = seat // SNAKES
        if b != last:
            shared = share(state[b])
            last = b
        if SPARSE:
            out[i, :] = 0
        encode(state[b], seat % SNAKES, shared, out[i])


def parallel(state, seats, out):
    for chunk in prange((seats.shape[0] + CHUNK - 1) // CHUNK):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        serial(state, seats[part], out[part])


def kernel(state, seats, out):
    i = cuda.grid(1)  # noqa: F821 - put in when the copy for a GPU is made
    if i < seats.shape[0]:
        match = state[int(seats[i]) // SNAKES]
        encode(match, int(seats[i]) % SNAKES, share(match), out[i])


@cache
def _cpu_loops(name: str, encode: Any, share: Any, sparse: bool) -> tuple[Any, Any]:
    one = njit(specialise(serial, name, encode=encode, share=share, SPARSE=sparse), encode)
    return one, njit_parallel(specialise(parallel, name, serial=one), encode)


def cpu_loop(encoder: Encoder, in_parallel: bool) -> Any:
    """loop(state, seats, out) for a CPU."""
    return _cpu_loops(encoder.name, encoder.encode, encoder.share, encoder.sparse)[in_parallel]


@cache
def _cuda_kernel(name: str, encode: Any, share: Any) -> Any:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    return cuda_kernel(specialise(kernel, name, encode=encode, share=share, cuda=cuda), encode)


def encode_kernel(encoder: Encoder) -> Any:
    """kernel(state, seats, out) for a GPU, one thread per seat. Rows of a sparse encoder are zeroed by the caller."""
    return _cuda_kernel(encoder.name, encoder.encode, encoder.share)
