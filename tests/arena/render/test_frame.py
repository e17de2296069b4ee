"""Pictures of a match: its states, motion between them, names and scores of any kind."""

import copy
import re

import numpy as np
import pytest
import torch
from helpers.viewed import MATCH, long_match, wild_match

from arena.batch import BatchArena
from arena.errors import ArenaError
from arena.match_dict import gains, team_scores
from arena.render import frame as module
from arena.render.ansi import ansi
from arena.render.frame import Film, frame, palette
from arena.render.scene import Effect
from arena.render.shapes import draw
from arena.render.theme import BEAN_COLOUR, BOARD_COLOURS, SNAKE_COLOURS, STRIP_COLOUR, TEAM_COLOURS
from arena.render.timeline import Timeline, Turn, recorded_timeline

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


@pytest.mark.parametrize("cell", [12, 16, 20])
@pytest.mark.parametrize("blue", [-3, 5])
def test_the_header_shows_the_scores_that_the_gains_add_up_to(cell, blue, monkeypatch):
    match = copy.deepcopy(MATCH)
    match["snakes"][5] = [[9, 2 + i] for i in range(blue + 3)]
    assert (gains(match), team_scores(match)) == ([2, 1, 0, 0, 0, blue], (3, blue))
    written = []
    monkeypatch.setattr(
        module, "put_words", lambda picture, at, words, *_, **__: written.append((len(picture), at[1], at[0], words))
    )
    frame(match, cell)
    header = sorted((y > 1.2 * cell, x, words) for height, y, x, words in written if height < 3 * cell)
    rows = [[words for below, _, words in header if below == second] for second in (False, True)]
    assert rows[0] == ["red", "3", ":", str(blue), "blue"]
    of_red, of_blue = ["0", "+2", "1", "+1", "2", "+0"], ["3", "+0", "4", "+0", "5", f"{blue:+d}"]
    assert rows[1] == [*of_red, "turn 57 / 200", *of_blue]


def test_the_header_changes_with_the_turn_and_the_lengths_alone():
    def header(match):
        return frame(match)[:-240]

    before = header(MATCH)
    assert not np.array_equal(before, header(MATCH | {"turn": 58}))
    longer = copy.deepcopy(MATCH)
    longer["snakes"][3].append([2, 13])
    assert not np.array_equal(before, header(longer))
    moved = copy.deepcopy(MATCH)
    moved["beans"].pop()
    assert np.array_equal(before, header(moved))


def test_the_bar_has_the_shares_of_the_total_length():
    bar = frame(MATCH, 24)[-241]
    assert (bar[: round(480 * 12 / 18)] == TEAM_COLOURS[0]).all()
    assert (bar[round(480 * 12 / 18) :] == TEAM_COLOURS[1]).all()


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


def board(film: Film, position: float) -> np.ndarray:
    picture = film.picture(position).astype(int)
    return picture[-10 * picture.shape[1] // 20 :]


@pytest.mark.parametrize("cell", [12, 20, 33])
def test_a_whole_turn_shows_the_state(cell):
    match = long_match()
    film = Film(recorded_timeline(match), cell)
    assert film.size[0] == 20 * cell
    assert film.size[1] % 2 == 0
    for turn in (0, 120):
        state, picture = match.states()[turn], board(film, turn)
        taken = [place for body in state["snakes"] for place in body]
        for row in range(10):
            for column in range(20):
                colour = picture[int((row + 0.5) * cell), int((column + 0.5) * cell)]
                if [row, column] in state["beans"]:
                    assert np.abs(colour - BEAN_COLOUR).max() < 12
                elif [row, column] in taken:
                    assert colour.max() > 60, (row, column)
                else:
                    assert np.abs(colour - BOARD_COLOURS[(row + column) % 2]).max() < 4, (row, column)
        for colour in SNAKE_COLOURS:
            assert (np.abs(picture - colour).max(-1) < 8).any()


def test_between_turns_the_snakes_move():
    film = Film(recorded_timeline(long_match()), 20)
    before, between, after = (board(film, at) for at in (60, 60.5, 61))
    assert (before != between).any(-1).mean() > 0.01
    assert (between != after).any(-1).mean() > 0.01
    assert np.array_equal(board(film, 60), before)


def test_names_never_meet_the_score_and_the_result_is_on_the_end_card():
    for odd in ("", "\n\x1b[2J\x00", "\ud800", "<script>", "名前", "a name far longer than the picture is wide " * 5):
        match = wild_match(2, red=odd, blue=odd)
        film = Film(recorded_timeline(match), 20)
        head = film.picture(0)[:24]
        assert (head[:, 160:170] == STRIP_COLOUR).all()
        assert (head[:, 230:240] == STRIP_COLOUR).all()
        card = film.end_card()
        assert (card != film.picture(2)).any(-1).mean() > 0.3


@pytest.mark.parametrize("cell", [12, 20])
def test_pictures_drawn_together_are_those_drawn_alone(cell):
    film = Film(recorded_timeline(wild_match(12)), cell)
    positions = [0, 0.3, 2.7, 2.9, 5, 7.5, 11.6, 12, 3, 3.8, 9, 9.25, 9.5, 9.75, 10, 10.25]
    together = [*film.pictures(positions)]
    assert len(together) == len(positions)
    for position, picture in zip(positions, together, strict=True):
        assert np.array_equal(picture, film.picture(position)), f"turn {position}"
    assert [*film.pictures([])] == []


def test_heads_beans_and_effects_on_an_edge_go_on_beyond_the_other():
    before = MATCH | {"snakes": [[[4, 19], [4, 18], [4, 17]], [], [], [], [], []], "beans": [[4, 0], [9, 9]]}
    after = before | {"snakes": [[[4, 0], [4, 19], [4, 18], [4, 17]], [], [], [], [], []], "beans": [[9, 9]]}
    film = Film(Timeline("red", "blue", [Turn(before), Turn(after, [3] * 6, ate=(0,))]), 20)
    for half in (slice(0, 8), slice(-8, None)):
        head = board(film, 0.5)[80:100, half].reshape(-1, 3)
        assert (np.abs(head - SNAKE_COLOURS[0]).max(-1) < 12).sum() > 40
    blank = np.zeros((200, 400, 3), np.uint8)
    draw(blank, [module._ring(Effect(0, np.array([4.0, 0.0]), 1, False, 0.9))], 20)
    ring = blank.any(-1)
    assert ring[:, :10].any()
    assert ring[:, -10:].any()
    assert not ring[:, 60:340].any()
    glow = board(film, 0)[80:100, -1]  # of the bean in column 0
    assert (glow > board(film, 0)[140:160, -1]).any()


def test_a_gif_has_room_for_all_colours():
    assert len(palette()) <= 255  # and for one that leaves a pixel as it is
