"""Loops that run an encoder over any seats of a batch. A seat is match * 6 + snake.

Templates as in loops.py: `encode`, `measure`, `SPARSE`, `cell`, `share`, `write` and `PARTS` stand for those of an
encoder. Compiled per encoder, since compiling takes seconds and most programs use one. Seats of a match that stand
together share its measurements.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import prange

from arena.backends import parallel
from arena.backends.loops import specialise
from arena.backends.parallel import call_at
from arena.encoders import CellWords, Encoder, RowParts
from arena.jit import njit, njit_parallel
from arena.rules import SNAKES

REGISTERS = 128  # of a thread that searches: with all that it asks for, a GPU holds three quarters as many threads
CHUNK = 32 * SNAKES  # seats that one core takes at a stretch: whole matches
SPARSE = False
PARTS = 0


def encode(match, snake, common, out):
    raise NotImplementedError


def measure(match):
    raise NotImplementedError


def serial(state, seats, out):
    last = -1
    common = measure(state[0])
    for i in range(seats.shape[0]):
        seat = int(seats[i])
        b = seat // SNAKES
        if b != last:
            common = measure(state[b])
            last = b
        if SPARSE:
            out[i, :] = 0
        encode(state[b], seat % SNAKES, common, out[i])


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
        encode(match, int(seats[i]) % SNAKES, measure(match), out[i])


def cell(match, place):
    raise NotImplementedError


def write(match, snake, cells, part, out):
    raise NotImplementedError


def cells_kernel(state, words):
    """words [B, 25] of 8 cells, a thread for each. Neighbouring threads read neighbouring matches."""
    i = cuda.grid(1)  # noqa: F821
    matches = state.shape[0]
    if i < matches * words.shape[1]:
        match = state[i % matches]
        found = 0
        for byte in range(8):
            found |= cell(match, i // matches * 8 + byte) << 8 * byte
        words[i % matches, i // matches] = found


def parts_kernel(state, seats, cells, out):
    """A thread for every part of a row. Each view is centred on its own head: in `cells` neighbours read nearby."""
    i = cuda.grid(1)  # noqa: F821
    if i < seats.shape[0] * PARTS:
        seat = int(seats[i // PARTS])
        b = seat // SNAKES
        write(state[b], seat % SNAKES, cells[b], i % PARTS, out[i // PARTS])


def share(match, words):
    raise NotImplementedError


def share_kernel(state, words):
    """A thread for each match."""
    b = cuda.grid(1)  # noqa: F821
    if b < state.shape[0]:
        share(state[b], words[b])


def row_parts_kernel(state, seats, words, out):
    """A thread for every part of a row. Threads of one part stand together: in step they do the same work."""
    i = cuda.grid(1)  # noqa: F821
    rows = seats.shape[0]
    if i < rows * PARTS:
        seat = int(seats[i % rows])
        b = seat // SNAKES
        write(state[b], seat % SNAKES, words[b], i // rows, out[i % rows])


@cache
def _cpu_loop(name: str, encode: Any, measure: Any, sparse: bool) -> Any:
    return njit(specialise(serial, name, encode=encode, measure=measure, SPARSE=sparse), encode)


def cpu_loop(encoder: Encoder) -> Any:
    """loop(state, seats, out) for one core."""
    return _cpu_loop(encoder.name, encoder.encode, encoder.measure, encoder.sparse)


def bind_parallel(encoder: Encoder, *arrays: Any) -> Callable[[], None]:
    """A call of the same loop on all cores."""
    return parallel.bind(encode_parallel, cpu_loop(encoder), *arrays)


@cache
def _cuda_kernel(name: str, encode: Any, measure: Any) -> Any:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    return cuda_kernel(specialise(kernel, name, encode=encode, measure=measure, cuda=cuda), encode)


def encode_kernel(encoder: Encoder) -> Any:
    """kernel(state, seats, out) for a GPU, one thread per seat. Rows of a sparse encoder are zeroed by the caller."""
    return _cuda_kernel(encoder.name, encoder.encode, encoder.measure)


@cache
def _cell_kernels(name: str, cell_words: CellWords) -> tuple[Any, Any]:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    names = {"cell": cell_words.cell, "write": cell_words.write, "PARTS": cell_words.parts, "cuda": cuda}
    kernels = (cells_kernel, cell_words.cell), (parts_kernel, cell_words.write)
    first, second = (cuda_kernel(specialise(kernel, name, **names), callee) for kernel, callee in kernels)
    return first, second


def cell_kernels(encoder: Encoder) -> tuple[Any, Any]:
    """The same for encoders with `cell_words`: kernel(state, words of cells), a thread for each word, and then
    kernel(state, seats, cells, out), a thread for each part of the rows, which are words."""
    return _cell_kernels(encoder.name, encoder.cell_words)


@cache
def _part_kernels(name: str, row_parts: RowParts) -> tuple[Any, Any]:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    names = {"share": row_parts.share, "write": row_parts.write, "PARTS": row_parts.parts, "cuda": cuda}
    first = cuda_kernel(specialise(share_kernel, name, **names), row_parts.share)
    return first, cuda_kernel(specialise(row_parts_kernel, name, **names), row_parts.write, registers=REGISTERS)


def part_kernels(encoder: Encoder) -> tuple[Any, Any]:
    """The same for encoders with `row_parts`: kernel(state, words), a thread for each match, and then
    kernel(state, seats, words, out), a thread for each part of the rows."""
    return _part_kernels(encoder.name, encoder.row_parts)
