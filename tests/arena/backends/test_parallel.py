"""Parallel loops that call a serial one by its address: same results, and never with arguments of other types."""

import numba
import numpy as np
import pytest
from numba import prange
from numba.core.errors import TypingError

from arena.backends.parallel import bind, call_at
from arena.jit import njit, njit_parallel

CHUNK = 8


@njit
def double(values, out):
    for i in range(values.shape[0]):
        out[i] = 2 * values[i]


@njit
def negate(values, out):
    for i in range(values.shape[0]):
        out[i] = -values[i]


@njit_parallel
def in_chunks(address, values, out):
    for chunk in prange((values.shape[0] + CHUNK - 1) // CHUNK):
        p = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        call_at(address, (values[p], out[p]), (values, out))


@njit
def with_other_types(address, values, out):
    call_at(address, (values[::2], out), (values, out))


@pytest.mark.parametrize("items", [0, 1, 8, 61])
def test_every_chunk_is_done_once(items) -> None:
    for dtype in (np.int64, np.float32):
        values, out = np.arange(items, dtype=dtype), np.full(items, 7, dtype)
        bind(in_chunks, double, values, out)()
        np.testing.assert_array_equal(out, 2 * values)


def test_loops_over_the_same_kinds_of_arrays_share_one() -> None:
    values, out = np.arange(20), np.zeros(20, np.int64)
    calls = [bind(in_chunks, each, values, out) for each in (double, negate)]
    for call, factor in zip((*calls, *calls), (2, -1, 2, -1), strict=True):
        call()
        assert out[5] == 5 * factor
    if not numba.config.DISABLE_JIT:
        kinds = tuple(map(double.typeof_pyval, (values, out)))
        assert sum(each[1:] == kinds for each in in_chunks.signatures) == 1


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python has no types to compare")
def test_arguments_of_other_types_are_refused() -> None:
    """A stride that the machine code does not know of: it would read other memory."""
    with pytest.raises(TypingError, match="is called with"):
        bind(with_other_types, double, np.arange(20), np.zeros(20, np.int64))()
