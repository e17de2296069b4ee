"""The competition's observation dictionary."""

import copy

import numpy as np
import pytest

from arena.errors import ArenaError
from arena.jidi import jidi_observation

MATCH = {
    "turn": 12,
    "snakes": [
        [[4, 4], [4, 3], [4, 2], [4, 1]],
        [[0, 0], [0, 19], [0, 18]],
        [[9, 5], [8, 5], [7, 5]],
        [[2, 10], [2, 11], [2, 12]],
        [[6, 15], [6, 14], [6, 13]],
        [],
    ],
    "directions": [3, 2, 1, 2, 3, 0],
    "beans": [[1, 1], [3, 3], [5, 5], [7, 7], [8, 8]],
}


def test_keys_and_values_are_those_of_the_competition():
    observation = jidi_observation(MATCH, 4, [0, 1, 2, 3, 3, 0])
    assert list(observation) == [
        *range(1, 8),
        "board_width",
        "board_height",
        "last_direction",
        "controlled_snake_index",
    ]
    assert observation[1] == MATCH["beans"]
    for snake in range(6):
        assert observation[snake + 2] == MATCH["snakes"][snake]
    assert observation["board_width"] == 20
    assert observation["board_height"] == 10
    assert observation["last_direction"] == ["up", "down", "left", "right", "right", "up"]
    assert observation["controlled_snake_index"] == 6


@pytest.mark.parametrize("snake", range(6))
def test_observations_of_the_six_differ_only_in_the_controlled_snake(snake):
    observation = jidi_observation(MATCH, snake, None)
    assert observation.pop("controlled_snake_index") == snake + 2
    first = jidi_observation(MATCH, 0, None)
    first.pop("controlled_snake_index")
    assert observation == first


def test_at_the_start_of_a_match_there_is_no_last_direction():
    assert jidi_observation(MATCH, 0, None)["last_direction"] is None


def test_lists_are_fresh_so_that_a_controller_cannot_edit_the_match():
    match = copy.deepcopy(MATCH)
    directions = [0, 1, 2, 3, 0, 1]
    observation = jidi_observation(match, 0, directions)
    for key in range(1, 8):
        for place in observation[key]:
            place[0] = 99
        observation[key].clear()
    observation["last_direction"].clear()
    assert match == MATCH
    assert directions == [0, 1, 2, 3, 0, 1]
    assert jidi_observation(match, 0, directions)[1] == MATCH["beans"]


def test_coordinates_are_plain_integers():
    match = copy.deepcopy(MATCH)
    match["beans"] = [[np.int64(row), np.int64(column)] for row, column in MATCH["beans"]]
    match["snakes"][0] = [tuple(place) for place in MATCH["snakes"][0]]
    observation = jidi_observation(match, np.int64(1), None)
    assert observation[1] == MATCH["beans"]
    for key in range(1, 8):
        for place in observation[key]:
            assert [type(place), type(place[0]), type(place[1])] == [list, int, int]
    assert type(observation["controlled_snake_index"]) is int


@pytest.mark.parametrize("snake", [-1, 6, 2.5, None])
def test_an_unknown_snake_is_refused(snake):
    with pytest.raises(ArenaError, match="allowed: 0 to 5"):
        jidi_observation(MATCH, snake, None)


@pytest.mark.parametrize("directions", [[], [0] * 5, [0, 0, 0, 0, 0, 4], [0, 0, 0, 0, 0, -1]])
def test_bad_directions_are_refused(directions):
    with pytest.raises(ArenaError, match="last_directions"):
        jidi_observation(MATCH, 0, directions)


def test_last_directions_may_be_numbers_or_names():
    match = {"turn": 3, "snakes": [[[r, 0], [r, 1], [r, 2]] for r in range(6)], "directions": [2] * 6, "beans": []}
    numbers = jidi_observation(match, 0, [0, 1, 2, 3, 0, 1])
    names = jidi_observation(match, 0, ["up", "down", "left", "right", "up", "down"])
    assert numbers == names
