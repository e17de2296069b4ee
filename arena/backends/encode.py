"""Loops that run an encoder over any seats of a batch. A seat is match * 6 + snake.

Templates as in loops.py: `encode`, `share` and `SPARSE` stand for those of an encoder. Compiled per encoder, since
compiling takes seconds and most programs use one. Seats of a match that stand together share its measurements.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import prange

from arena.backends import parallel
from arena.backends.loops import specialise
from arena.backends.parallel import call_at
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


@njit_parallel
def encode_parallel(address, state, seats, out):
    """`address` is that of an encoder's loop."""
    for chunk in prange((seats.shape[0] + CHUNK - 1) // CHUNK):
        p = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        call_at(address, (state, seats[p], out[p]), (state, seats, out))


def kernel(state, seats, out):
    i = cuda.grid(1)  # noqa: F821 - put in when the copy for a GPU is made
    if i < seats.shape[0]:
        match = state[int(seats[i]) // SNAKES]
        encode(match, int(seats[i]) % SNAKES, share(match), out[i])


@cache
def _cpu_loop(name: str, encode: Any, share: Any, sparse: bool) -> Any:
    return njit(specialise(serial, name, encode=encode, share=share, SPARSE=sparse), encode)


def cpu_loop(encoder: Encoder) -> Any:
    """loop(state, seats, out) for one core."""
    return _cpu_loop(encoder.name, encoder.encode, encoder.share, encoder.sparse)


def bind_parallel(encoder: Encoder, *arrays: Any) -> Callable[[], None]:
    """A call of the same loop on all cores."""
    return parallel.bind(encode_parallel, cpu_loop(encoder), *arrays)


@cache
def _cuda_kernel(name: str, encode: Any, share: Any) -> Any:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    return cuda_kernel(specialise(kernel, name, encode=encode, share=share, cuda=cuda), encode)


def encode_kernel(encoder: Encoder) -> Any:
    """kernel(state, seats, out) for a GPU, one thread per seat. Rows of a sparse encoder are zeroed by the caller."""
    return _cuda_kernel(encoder.name, encoder.encode, encoder.share)
