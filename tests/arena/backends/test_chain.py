"""Loops in one compiled call run in order, as often as asked; an error of one of them ends the rest."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from arena.backends.chain import chain
from arena.jit import njit


@njit
def double(values):
    for i in range(values.shape[0]):
        values[i] *= 2


@njit
def add(values, number, more):
    for i in range(values.shape[0]):
        if values[i] > 1000:
            raise ValueError("too large")
        values[i] += number * more[i]


def test_calls_are_made_in_order_and_again() -> None:
    values, more = np.arange(5.0), np.ones(5, np.int8)
    calls = chain([partial(double, values), partial(add, values, 3, more), partial(double, values)])
    calls(0)
    assert values.tolist() == [0, 1, 2, 3, 4]
    calls(1)
    assert values.tolist() == [6, 10, 14, 18, 22]
    calls(2)
    assert values.tolist() == [(4 * value + 6) * 4 + 6 for value in (6, 10, 14, 18, 22)]


def test_an_error_ends_the_chain() -> None:
    values, more = np.full(2, 600.0), np.ones(2, np.int8)
    with pytest.raises(ValueError, match="too large"):
        chain([partial(double, values), partial(add, values, 1, more), partial(double, values)])(5)
    assert values.tolist() == [1200.0, 1200.0]


class Each(NamedTuple):
    """Arguments of every kind that loops have."""

    large: int
    numbers: tuple[float, bool]
    single: np.float32
    small: np.int8
    bits: np.uint64
    columns: np.ndarray


@njit
def read(each, number, found):
    found[0] += each.large
    found[1] += each.numbers[0]
    found[2] += int(each.numbers[1])
    found[3] += each.single
    found[4] += each.small
    found[5] += int(each.bits >> np.uint64(60))
    for i in range(each.columns.shape[0]):
        for j in range(each.columns.shape[1]):
            found[6] += (10 * i + j) * each.columns[i, j]
    found[7] += number


def test_arguments_of_every_kind_arrive() -> None:
    """Nested, negative, of fewer than 64 bits; arrays that are no whole block of memory, turned round or read-only."""
    table = np.arange(24, dtype=np.int16).reshape(4, 6)
    table.flags.writeable = False
    for columns in (table, table[:, ::2], table[::-1, 1:3], table.T):
        for yes in (True, False):
            each = Each(-(2**40), (-2.5, yes), np.float32(0.1), np.int8(-7), np.uint64(2**64 - 1), columns)
            expected, found = np.zeros((2, 8))
            getattr(read, "py_func", read)(each, -3, expected)
            chain([partial(read, each, -3, found)])(2)
            assert found.tolist() == (2 * expected).tolist()
