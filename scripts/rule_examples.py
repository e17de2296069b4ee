"""The examples of docs/rules.md: blocks that say what one turn does. Read here, played by the tests, drawn in docs.

bean (4,5)
snake 0 at (4,4)(4,3)(4,2) facing right moves right      (facing: the direction of the move unless said)
then snake 0 eats, dies, reward -2, at (0,1)(0,0)(1,0), facing right
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from arena import BatchArena
from arena.render.frame import frame
from arena.rules import COLUMNS, ROWS, SNAKES
from marl.pictures.canvas import FAINT, PAPER, SCALE, Canvas

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
DIRECTIONS = ("up", "down", "left", "right")
# Where snakes and beans are that an example does not name.
WAITING = [[[row, c], [row, c - 1], [row, c - 2]] for row in (7, 9) for c in (8, 13, 18)]
BEANS_AWAY = [[0, 19], [0, 17], [0, 15], [0, 13], [0, 11]]
CELL, BETWEEN = 28, 40  # pixels of a cell, and between the two pictures


class Played(NamedTuple):
    """One turn."""

    before: dict[str, Any]
    after: dict[str, Any]
    events: list[dict[str, Any]]  # for each snake: eats, dies, reward, at, facing


class Example(NamedTuple):
    """One block."""

    name: str
    before: dict[str, Any]
    moves: list[int]
    expected: dict[int, dict[str, Any]]  # snake -> what the page says about it

    def play(self) -> Played:
        arena = BatchArena(1, seed=1)
        arena.start()
        arena.set_match(0, self.before)
        happened = arena.play_turn(torch.tensor([self.moves]))
        after = arena.get_match(0)
        events = [
            {
                "eats": bool(happened.ate[0, snake]),
                "dies": bool(happened.died[0, snake]),
                "reward": int(happened.reward[0, snake]),
                "at": after["snakes"][snake],
                "facing": DIRECTIONS[after["directions"][snake]],
            }
            for snake in range(SNAKES)
        ]
        return Played(self.before, after, events)


def read_examples() -> list[Example]:
    """All examples of the page, in order."""
    blocks = re.findall(r"^```turn\n(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [_read(name, text.splitlines()) for name, text in blocks]


def _read(name: str, lines: list[str]) -> Example:
    beans = [cell for line in lines if line.startswith("bean ") for cell in _cells(line)]
    bodies, facing = [list(body) for body in WAITING], [DIRECTIONS.index("right")] * SNAKES
    moves, expected = list(facing), {}
    for line in lines:
        if found := re.fullmatch(r"snake (\d) at (\S+)(?: facing (\w+))? moves (\w+)", line):
            snake, move = int(found[1]), DIRECTIONS.index(found[4])
            bodies[snake], moves[snake] = _cells(found[2]), move
            facing[snake] = DIRECTIONS.index(found[3]) if found[3] else move
        elif found := re.fullmatch(r"then snake (\d) (.+)", line):
            expected[int(found[1])] = _read_outcome(found[2])
        elif not line.startswith("bean "):
            raise ValueError(f"{name}: not understood: {line}")
    taken = [cell for body in bodies for cell in body] + beans
    beans += [cell for cell in BEANS_AWAY if cell not in taken][: 5 - len(beans)]
    return Example(name, {"turn": 0, "snakes": bodies, "directions": facing, "beans": beans}, moves, expected)


def _read_outcome(text: str) -> dict[str, Any]:
    words = re.split(r", ", text)
    outcome: dict[str, Any] = {"eats": "eats" in words, "dies": "dies" in words}
    for word in words:
        kind, _, value = word.partition(" ")
        if kind == "reward":
            outcome[kind] = int(value)
        elif kind == "at":
            outcome[kind] = _cells(value)
        elif kind == "facing":
            outcome[kind] = value
        elif word not in ("eats", "dies", "lives"):
            raise ValueError(f"not understood: {word}")
    return outcome


def _cells(text: str) -> list[list[int]]:
    return [[int(row), int(column)] for row, column in re.findall(r"\((\d+),(\d+)\)", text)]


def draw_example(example: Example) -> Image.Image:
    """The part of the board that an example speaks of, before its turn and after it."""
    played = example.play()
    named = [cell for snake, outcome in example.expected.items() for cell in outcome.get("at", [])]
    named += [cell for snake in example.expected for cell in example.before["snakes"][snake]]
    rows, columns = ([cell[i] for cell in named] for i in (0, 1))
    top, bottom = max(min(rows) - 1, 0), min(max(rows) + 2, ROWS)
    left, right = max(min(columns) - 1, 0), min(max(columns) + 3, COLUMNS)
    width, height = (right - left) * CELL, (bottom - top) * CELL
    image = Image.new("RGB", (2 * width + BETWEEN, height), PAPER)
    for at, match in ((0, played.before), (width + BETWEEN, played.after)):
        picture = Image.fromarray(frame(match, CELL))
        board = picture.height - ROWS * CELL  # below the header with the scores
        image.paste(picture.crop((left * CELL, board + top * CELL, right * CELL, board + bottom * CELL)), (at, 0))
    middle = ((width + BETWEEN / 2) / SCALE, height / 2 / SCALE)  # in units of SCALE pixels
    Canvas(image).text(middle, ">", 14, FAINT, "mm")
    return image
