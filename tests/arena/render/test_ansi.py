"""A match as text, plain and in the colours of a terminal."""

import re

import pytest
from helpers.viewed import MATCH, wild_match

from arena.render.ansi import PLAIN, Terminal, ansi, terminal
from arena.render.theme import BEAN_COLOUR, BOARD_COLOURS, SNAKE_COLOURS

LARGE, SMALL = Terminal(True, True, True), Terminal(True, False, False)


def test_the_plain_text_shows_heads_bodies_and_beans_in_their_places():
    header, *rows = ansi(MATCH).split("\n")
    assert "\x1b" not in ansi(MATCH)
    board = [[row[i : i + 2] for i in range(0, 40, 2)] for row in rows]
    expected = [[" ."] * 20 for _ in range(10)]
    for row, column in MATCH["beans"]:
        expected[row][column] = " *"
    for snake, body in enumerate(MATCH["snakes"]):
        for age, (row, column) in enumerate(body):
            expected[row][column] = f"{'^v<>'[MATCH['directions'][snake]] if age == 0 else ' '}{snake}"
    assert board == expected
    assert header == "turn 57/200  red 3: 0+2> 1+1> 2+0^  blue -3: 3+0< 4+0> 5-3^"


def pixels(text: str) -> list[list[tuple[int, ...]]]:
    """The colours of the half blocks: two rows per line; a number on a head counts as its ground."""
    rows = []
    for line in text.split("\n")[1:]:
        upper, lower, ink, ground = [], [], (), ()
        for codes, letter in re.findall(r"\x1b\[([\d;]*)m|(.)", line):
            if letter:
                upper.append(ink if letter == "▀" else ground)
                lower.append(ground)
            elif codes != "0":
                numbers = [int(code) for code in codes.split(";")]
                ink, ground = tuple(numbers[2:5]), tuple(numbers[7:10])
        rows += [upper, lower]
    return rows


@pytest.mark.parametrize("turn", [None, 0, 20, 40, 60])
def test_half_blocks_show_the_state(turn):
    match = MATCH if turn is None else wild_match(60).states()[turn]
    found = pixels(ansi(match, LARGE))
    assert (len(found), {len(row) for row in found}) == (40, {80})
    taken = {tuple(place): snake for snake, body in enumerate(match["snakes"]) for place in body}
    for row in range(10):
        for column in range(20):
            colour = found[row * 4 + 1][column * 4 + 1]
            if [row, column] in match["beans"]:
                assert colour == BEAN_COLOUR
            elif (row, column) in taken:
                assert (colour[0] > colour[2]) == (taken[row, column] < 3)
            else:
                assert colour == BOARD_COLOURS[(row + column) % 2]
    for snake, body in enumerate(match["snakes"]):
        for row, column in body[:1]:
            assert found[row * 4][column * 4] == SNAKE_COLOURS[snake]


def test_segments_of_a_body_touch_and_neighbours_do_not():
    found = pixels(ansi(MATCH, LARGE))
    assert found[17][15] not in BOARD_COLOURS  # between [4, 3] and [4, 4]
    assert found[1][79] not in BOARD_COLOURS  # over the edge
    assert found[27][29] in BOARD_COLOURS  # the gap of snake 2, between [6, 7] and [7, 7]


def test_the_small_board_has_the_numbers_of_the_plain_one():
    text = re.sub(r"\x1b\[[\d;]*m", "", ansi(MATCH, SMALL))
    assert [len(line) for line in text.split("\n")[1:]] == [40] * 10
    assert re.findall(r"[<>v^]\d", "".join(text.split("\n")[1:])) == [">1", "<3", ">0", ">4", "^2"]
    assert text.split("\n")[0] == ansi(MATCH).split("\n")[0]


@pytest.mark.parametrize(
    ("is_terminal", "environment", "size", "expected"),
    [
        (True, {"COLORTERM": "truecolor"}, (100, 30), Terminal(True, True, True)),
        (True, {}, (80, 24), Terminal(True, False, True)),
        (True, {}, (79, 24), Terminal(True, False, False)),
        (True, {}, (80, 20), Terminal(True, False, False)),
        (True, {"NO_COLOR": "1"}, (100, 30), PLAIN),
        (True, {"TERM": "dumb"}, (100, 30), PLAIN),
        (False, {"COLORTERM": "truecolor"}, (100, 30), PLAIN),
    ],
)
def test_what_a_terminal_can_show(is_terminal, environment, size, expected):
    assert terminal(is_terminal, environment, size) == expected
