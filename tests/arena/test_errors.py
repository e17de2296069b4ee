"""Whole numbers as arguments: which values count as one, and the message for those that do not."""

import numpy as np
import pytest
import torch

from arena.errors import ArenaError, whole_number


@pytest.mark.parametrize("value", [5, np.int8(5), np.uint64(5), np.array(5), torch.tensor(5)], ids=repr)
def test_every_kind_of_whole_number_becomes_an_int(value) -> None:
    number = whole_number(value, "seed")
    assert (number, type(number)) == (5, int)


@pytest.mark.parametrize("value", [True, False, 5.0, "5", None, np.float32(5), np.array([5, 6]), -1, 2**63], ids=repr)
def test_anything_else_is_refused(value) -> None:
    with pytest.raises(ArenaError, match=r"^seed is .+; allowed: a whole number from 0 to 9223372036854775807$"):
        whole_number(value, "seed")


def test_bounds_belong_to_the_range() -> None:
    assert [whole_number(value, "turn", 1, 3) for value in (1, 2, 3)] == [1, 2, 3]
    for value in (0, 4):
        with pytest.raises(ArenaError, match=rf"^turn is {value}; allowed: a whole number from 1 to 3$"):
            whole_number(value, "turn", 1, 3)


def test_without_an_upper_bound_and_with_words_of_the_caller() -> None:
    assert whole_number(2**80, "matches", 1, None) == 2**80
    with pytest.raises(ArenaError, match=r"^matches is 0; allowed: a whole number from 1$"):
        whole_number(0, "matches", 1, None)
    with pytest.raises(ArenaError, match=r"^matches is 0; allowed: at least one$"):
        whole_number(0, "matches", 1, None, "at least one")
