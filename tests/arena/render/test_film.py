"""Pictures of film.py: the states of the match, motion between them, names and scores of any kind."""

import numpy as np
import pytest
from helpers.viewed import MATCH, long_match, wild_match
from PIL import Image

from arena.render.film import Film, palette
from arena.render.film_sprites import Sprites
from arena.render.frame import BEAN_COLOUR, BOARD_COLOURS, SNAKE_COLOURS, STRIP_COLOUR
from arena.render.scene import Effect
from arena.render.timeline import Timeline, Turn, recorded_timeline


def board(film: Film, position: float) -> np.ndarray:
    picture = np.asarray(film.picture(position)).astype(int)
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
        head = np.asarray(film.picture(0))[:24]
        assert (head[:, 160:170] == STRIP_COLOUR).all()
        assert (head[:, 230:240] == STRIP_COLOUR).all()
        card = np.asarray(film.end_card())
        assert (card != np.asarray(film.picture(2))).any(-1).mean() > 0.3


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
    blank = Image.new("RGB", (400, 200))
    Sprites(20).put_effect(blank, Effect(0, np.array([4.0, 0.0]), 1, False, 0.9))
    ring = np.asarray(blank).any(-1)
    assert ring[:, :10].any()
    assert ring[:, -10:].any()
    assert not ring[:, 60:340].any()
    glow = board(film, 0)[80:100, -1]  # of the bean in column 0
    assert (glow > board(film, 0)[140:160, -1]).any()


def test_a_gif_has_room_for_all_colours():
    assert len(palette()) <= 255  # and for one that leaves a pixel as it is
