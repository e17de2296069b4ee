"""Loops in one compiled call run in order, as often as asked; an error of one of them ends the rest."""

from functools import partial

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
