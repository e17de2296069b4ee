"""Orientations: turning the board and turning it back, and examples drawn by hand."""

from itertools import product

import pytest

from arena.encoders.orientation import (
    BOARD_ACTIONS,
    LOCAL_ACTIONS,
    ORIENTATIONS,
    board_action,
    local_action,
    to_board,
    to_local,
)
from arena.rules import DOWN, LEFT, RIGHT, UP

ACTIONS = (UP, DOWN, LEFT, RIGHT)
VECTORS = list(product(range(-10, 11), repeat=2))
orientations = pytest.mark.parametrize("orientation", range(ORIENTATIONS))


@orientations
def test_vectors_become_local_and_those_of_the_board_again(orientation) -> None:
    assert [to_board(orientation, *to_local(orientation, *vector)) for vector in VECTORS] == VECTORS
    assert [to_local(orientation, *to_board(orientation, *vector)) for vector in VECTORS] == VECTORS


@orientations
def test_actions_become_local_and_those_of_the_board_again(orientation) -> None:
    assert [board_action(orientation, local_action(orientation, action)) for action in ACTIONS] == list(ACTIONS)
    assert [local_action(orientation, board_action(orientation, action)) for action in ACTIONS] == list(ACTIONS)


@orientations
def test_actions_are_those_of_the_tables(orientation) -> None:
    assert [local_action(orientation, action) for action in ACTIONS] == LOCAL_ACTIONS[orientation].tolist()
    assert [board_action(orientation, action) for action in ACTIONS] == BOARD_ACTIONS[orientation].tolist()


@orientations
def test_opposite_actions_stay_opposite(orientation) -> None:
    for action in ACTIONS:
        assert local_action(orientation, action ^ 1) == local_action(orientation, action) ^ 1
        assert board_action(orientation, action ^ 1) == board_action(orientation, action) ^ 1


@orientations
def test_a_local_action_is_the_local_step(orientation) -> None:
    steps = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
    for action, step in steps.items():
        assert to_local(orientation, *step) == steps[local_action(orientation, action)]


def test_orientation_0_is_the_board_as_it_is() -> None:
    assert [to_local(0, *vector) for vector in VECTORS] == VECTORS
    assert [local_action(0, action) for action in ACTIONS] == list(ACTIONS)


@pytest.mark.parametrize("direction", ACTIONS)
def test_a_direction_becomes_up_in_its_two_orientations(direction) -> None:
    looking_up = [each for each in range(ORIENTATIONS) if local_action(each, direction) == UP]
    assert looking_up == [direction, direction + 4]


@pytest.mark.parametrize("direction", ACTIONS)
def test_the_second_orientation_of_a_direction_swaps_left_and_right(direction) -> None:
    swapped = [UP, DOWN, RIGHT, LEFT]
    mirrored = [local_action(direction + 4, action) for action in ACTIONS]
    assert mirrored == [swapped[local_action(direction, action)] for action in ACTIONS]
    for vector in VECTORS:
        ahead, aside = to_local(direction, *vector)
        assert to_local(direction + 4, *vector) == (ahead, -aside)


def test_all_orientations_differ() -> None:
    assert len({tuple(actions) for actions in LOCAL_ACTIONS.tolist()}) == ORIENTATIONS


# A head and a bean, one row up and two columns to the right of it; and how it looks to a head that looks right:
#
#   . . o          o .
#   > . .    ->    . .
#                  . ^
DRAWN = [
    (LEFT, (-1, 2), (2, 1)),  # up and to the right of a head that looks left: behind it, on its right hand
    (RIGHT, (-1, 2), (-2, -1)),  # the same bean for a head that looks right: ahead of it, on its left hand
    (RIGHT + 4, (-1, 2), (-2, 1)),  # and mirrored: ahead, now on the right
    (DOWN, (-1, 2), (1, -2)),  # for a head that looks down: behind it, on its left hand
    (UP + 4, (-1, 2), (-1, -2)),  # for one that looks up and is mirrored: ahead, now on the left
]


@pytest.mark.parametrize(("orientation", "vector", "expected"), DRAWN)
def test_a_bean_is_seen_where_the_drawing_has_it(orientation, vector, expected) -> None:
    assert to_local(orientation, *vector) == expected


def test_actions_of_a_snake_that_looks_right() -> None:
    """Its own left hand is up on the board; mirrored, that is its right."""
    assert [board_action(RIGHT, action) for action in ACTIONS] == [RIGHT, LEFT, UP, DOWN]
    assert [board_action(RIGHT + 4, action) for action in ACTIONS] == [RIGHT, LEFT, DOWN, UP]
