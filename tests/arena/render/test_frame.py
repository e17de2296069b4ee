"""Pictures of a match."""

import copy
import re

import numpy as np
import pytest
import torch
from helpers.viewed import MATCH

from arena.batch import BatchArena
from arena.errors import ArenaError
from arena.match_dict import gains, team_scores
from arena.render.ansi import ansi
from arena.render.frame import BEAN_COLOUR, BOARD_COLOURS, GLYPHS, SNAKE_COLOURS, STRIP_COLOUR, frame

FACES = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}


def pixel(picture, row, column, cell):
    """The pixel in the middle of a place, which may be a fraction."""
    top = picture.shape[0] - 10 * cell
    return tuple(int(c) for c in picture[top + int((row + 0.5) * cell), int((column + 0.5) * cell)])


@pytest.mark.parametrize("cell", [12, 15, 24, 40])
def test_a_picture_has_even_sides_and_room_for_the_board(cell):
    picture = frame(MATCH, cell)
    height, width, channels = picture.shape
    assert picture.dtype == np.uint8
    assert (width, channels) == (20 * cell, 3)
    assert height > 10 * cell
    assert height % 2 == 0


@pytest.mark.parametrize("cell", [12, 24])
def test_beans_lie_on_their_cells_and_free_cells_are_dark(cell):
    picture = frame(MATCH, cell)
    taken = [place for body in MATCH["snakes"] for place in body]
    for row in range(10):
        for column in range(20):
            colour = pixel(picture, row, column, cell)
            if [row, column] in MATCH["beans"]:
                assert colour == BEAN_COLOUR, (row, column)
            elif [row, column] not in taken:
                assert colour == BOARD_COLOURS[(row + column) % 2], (row, column)
            else:
                assert max(colour) > 80, (row, column)


@pytest.mark.parametrize("cell", [24, 40])
@pytest.mark.parametrize("team", [0, 3])
def test_snakes_of_a_team_are_told_apart_without_colour_too(cell, team):
    """On a segment, from its middle outwards: nothing, a dot, a ring."""
    straight = [[[row, column] for column in range(8, 2, -1)] for row in (0, 2, 4, 6, 7, 9)]
    picture = frame(MATCH | {"snakes": straight, "beans": []}, cell)
    for snake, dark in enumerate(((False, False), (True, False), (False, True)), team):
        for row, column in straight[snake][1:]:
            plain = sum(pixel(picture, row, column + 0.3, cell))
            found = tuple(sum(pixel(picture, row + far, column, cell)) < 0.8 * plain for far in (0, 0.15))
            assert found == dark, (snake, column)


def test_every_snake_has_its_own_colour_and_the_teams_their_family():
    picture = frame(MATCH, 48)
    for snake, body in enumerate(MATCH["snakes"]):
        if body:
            assert (picture == SNAKE_COLOURS[snake]).all(-1).sum() > 100, f"snake {snake}"
            for place in body[1:]:
                red, _, blue = pixel(picture, *place, 48)
                assert (red > blue) == (snake < 3), f"snake {snake}, {place}"
    assert len(set(SNAKE_COLOURS)) == 6


def test_segments_are_joined_also_over_the_edge_and_torn_ones_are_not():
    picture = frame(MATCH, 48)

    def dark(row, column):
        return max(pixel(picture, row, column, 48)) < 60

    assert not dark(4, 2.5)
    assert not dark(4.5, 1)
    assert not dark(0, -0.49)
    assert not dark(0, 19.47)
    assert not dark(7.6, 7)
    assert dark(6.45, 7)  # the tail at [6, 7] is not joined to [8, 7]
    assert dark(8.49, 7)


@pytest.mark.parametrize("direction", range(4))
def test_eyes_look_where_the_snake_goes(direction):
    match = copy.deepcopy(MATCH)
    match["directions"][3] = direction
    cell = 48
    picture = frame(match, cell)
    top = picture.shape[0] - 10 * cell
    head = picture[top + 2 * cell : top + 3 * cell, 10 * cell : 11 * cell].astype(int)
    rows, columns = np.nonzero((head > 235).all(-1))
    assert len(rows) > 10
    ahead = FACES[direction]
    middle = (cell - 1) / 2
    assert (rows.mean() - middle) * ahead[0] + (columns.mean() - middle) * ahead[1] > 1


def words_of(strip: np.ndarray) -> list[str]:
    """The texts of a strip of scale 1, left to right: letters that stand together are one text."""
    inked = (strip[:-2] != STRIP_COLOUR).any(-1)
    top = int(inked.any(1).argmax())
    patterns = {
        letter: np.array([[row >> bit & 1 for bit in (4, 3, 2, 1, 0)] for row in rows], bool)
        for letter, rows in GLYPHS.items()
        if letter != " "
    }
    found: list[tuple[int, str]] = []
    x = 0
    while x < inked.shape[1] - 5:
        letter = next(
            (name for name, dots in patterns.items() if (inked[top : top + 7, x : x + 5] == dots).all()), None
        )
        if letter is None:
            x += 1
        else:
            found.append((x, letter))
            x += 6
    words, end = [], None
    for x, letter in found:
        if x == end:
            words[-1] += letter
        else:
            words.append(letter)
        end = x + 6
    return words


@pytest.mark.parametrize("cell", [12, 16, 20])
@pytest.mark.parametrize("blue", [-3, 5])
def test_the_strip_shows_the_scores_that_the_gains_add_up_to(cell, blue):
    match = copy.deepcopy(MATCH)
    match["snakes"][5] = [[9, 2 + i] for i in range(blue + 3)]
    assert (gains(match), team_scores(match)) == ([2, 1, 0, 0, 0, blue], (3, blue))
    picture = frame(match, cell)
    strip = picture[: picture.shape[0] - 10 * cell]
    assert words_of(strip) == ["RED", "3", "2", "1", "0", "TURN", "57", "0", "0", str(blue), "BLUE", str(blue)]


def test_the_longest_scores_fit_into_the_smallest_strip():
    match = copy.deepcopy(MATCH) | {"turn": 200, "beans": []}
    match["snakes"][:3] = [[[0, 0]] * 103, [[0, 0]] * 43, [[0, 0]] * 40]
    strip = frame(match, 12)[:18]
    assert "".join(words_of(strip)).startswith("RED1771004037TURN200"), "no letter covers another"


def test_the_strip_shows_the_turn_and_the_lengths():
    def strip(match):
        picture = frame(match)
        return picture[: picture.shape[0] - 240]

    before = strip(MATCH)
    assert not np.array_equal(before, strip(MATCH | {"turn": 58}))
    longer = copy.deepcopy(MATCH)
    longer["snakes"][3].append([2, 13])
    assert not np.array_equal(before, strip(longer))
    moved = copy.deepcopy(MATCH)
    moved["beans"].pop()
    assert np.array_equal(before, strip(moved))


def test_a_picture_does_not_change_the_match_and_is_the_same_twice():
    match = copy.deepcopy(MATCH)
    assert np.array_equal(frame(match), frame(match))
    assert match == MATCH


def test_every_turn_of_a_random_match_can_be_shown():
    seed = 21
    batch = BatchArena(1, seed=seed)
    batch.start()
    generator = np.random.default_rng(seed)
    for turn in range(40):
        batch.play_turn(torch.from_numpy(generator.integers(0, 4, (1, 6))))
        match = batch.get_match(0)
        picture = frame(match, 12)
        for bean in match["beans"]:
            assert pixel(picture, *bean, 12) == BEAN_COLOUR, f"seed {seed}, turn {turn}, bean {bean}"
        board = ansi(match).split("\n", 1)[1]
        for snake, body in enumerate(match["snakes"]):
            assert len(re.findall(f"[<>v^]{snake}", board)) == 1, f"seed {seed}, turn {turn}, snake {snake}"
            assert board.count(str(snake)) == len(body), f"seed {seed}, turn {turn}"


@pytest.mark.parametrize("cell", [0, 11, 97])
def test_a_cell_size_that_cannot_be_drawn_is_refused(cell):
    with pytest.raises(ArenaError, match="allowed: 12 to 96"):
        frame(MATCH, cell)
