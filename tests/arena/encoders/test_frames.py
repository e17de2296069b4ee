"""Frames: turning the board there and back, and examples drawn by hand."""

from itertools import product

import pytest

from arena.encoders.orientation import BOARD_ACTIONS, LOCAL_ACTIONS, ORIENTATIONS, back, forth, seen, unseen
from arena.rules import DOWN, LEFT, RIGHT, UP

MOVES = (UP, DOWN, LEFT, RIGHT)
WAYS = list(product(range(-10, 11), repeat=2))
frames = pytest.mark.parametrize("frame", range(ORIENTATIONS))


@frames
def test_ways_are_seen_and_unseen_again(frame) -> None:
    assert [unseen(frame, *seen(frame, *way)) for way in WAYS] == WAYS
    assert [seen(frame, *unseen(frame, *way)) for way in WAYS] == WAYS


@frames
def test_moves_go_forth_and_back(frame) -> None:
    assert [back(frame, forth(frame, move)) for move in MOVES] == list(MOVES)
    assert [forth(frame, back(frame, move)) for move in MOVES] == list(MOVES)


@frames
def test_moves_are_those_of_the_tables(frame) -> None:
    assert [forth(frame, move) for move in MOVES] == LOCAL_ACTIONS[frame].tolist()
    assert [back(frame, move) for move in MOVES] == BOARD_ACTIONS[frame].tolist()


@frames
def test_opposite_moves_stay_opposite(frame) -> None:
    for move in MOVES:
        assert forth(frame, move ^ 1) == forth(frame, move) ^ 1
        assert back(frame, move ^ 1) == back(frame, move) ^ 1


@frames
def test_a_move_goes_where_its_step_is_seen(frame) -> None:
    steps = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
    for move, step in steps.items():
        assert seen(frame, *step) == steps[forth(frame, move)]


def test_frame_0_is_the_board_as_it_is() -> None:
    assert [seen(0, *way) for way in WAYS] == WAYS
    assert [forth(0, move) for move in MOVES] == list(MOVES)


@pytest.mark.parametrize("direction", MOVES)
def test_a_direction_becomes_up_in_its_two_frames(direction) -> None:
    assert [frame for frame in range(ORIENTATIONS) if forth(frame, direction) == UP] == [direction, direction + 4]


@pytest.mark.parametrize("direction", MOVES)
def test_the_second_frame_of_a_direction_swaps_left_and_right(direction) -> None:
    swapped = [UP, DOWN, RIGHT, LEFT]
    assert [forth(direction + 4, move) for move in MOVES] == [swapped[forth(direction, move)] for move in MOVES]
    for way in WAYS:
        ahead, aside = seen(direction, *way)
        assert seen(direction + 4, *way) == (ahead, -aside)


def test_all_frames_differ() -> None:
    assert len({tuple(LOCAL_ACTIONS[frame].tolist()) for frame in range(ORIENTATIONS)}) == ORIENTATIONS


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


@pytest.mark.parametrize(("frame", "way", "expected"), DRAWN)
def test_a_bean_is_seen_where_the_drawing_has_it(frame, way, expected) -> None:
    assert seen(frame, *way) == expected


def test_moves_of_a_snake_that_looks_right() -> None:
    """Its own left hand is up on the board; mirrored, that is its right."""
    assert [back(RIGHT, move) for move in MOVES] == [RIGHT, LEFT, UP, DOWN]
    assert [back(RIGHT + 4, move) for move in MOVES] == [RIGHT, LEFT, DOWN, UP]
