"""Pictures of film.py: the states of the match, motion between them, names and scores of any kind."""

import numpy as np
import pytest
from helpers.viewed import long_match, wild_match

from arena.render.film import Film, palette
from arena.render.frame import BEAN_COLOUR, BOARD_COLOURS, SNAKE_COLOURS, STRIP_COLOUR
from arena.render.timeline import recorded_timeline


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


def test_a_gif_has_room_for_all_colours():
    assert len(palette()) <= 256
