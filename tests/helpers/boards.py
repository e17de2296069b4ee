"""Small boards for tests: put snakes where a case needs them, play one turn, look at what came out."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.rules import COLUMNS, DOWN, LEFT, RIGHT, ROWS, UP

Cell = tuple[int, int]
STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}

# Where the snakes wait that a case does not name: rows 7 and 9, all going right, in nobody's way.
WAITING: list[list[Cell]] = [[(row, c), (row, c - 1), (row, c - 2)] for row in (7, 9) for c in (4, 10, 16)]
BEANS_AWAY: list[Cell] = [(0, 19), (0, 17), (0, 15), (0, 13), (0, 11)]


class Outcome(NamedTuple):
    match: dict[str, Any]
    ate: list[bool]
    died: list[bool]
    reward: list[int]
    over: bool

    def body(self, snake: int) -> list[Cell]:
        return [tuple(cell) for cell in self.match["snakes"][snake]]


def beside(cell: Cell, direction: int) -> Cell:
    """The next cell around the torus."""
    step = STEPS[direction]
    return ((cell[0] + step[0]) % ROWS, (cell[1] + step[1]) % COLUMNS)


def board(snakes: dict[int, tuple[list[Cell], int]], beans: list[Cell] | None = None, turn: int = 0) -> dict[str, Any]:
    """A match with these snakes as {snake: (cells head first, direction)}; the others wait, the beans lie away."""
    bodies = [list(snakes[i][0]) if i in snakes else WAITING[i] for i in range(6)]
    taken = {cell for body in bodies for cell in body}
    places = list(beans or [])
    for cell in BEANS_AWAY:
        if len(places) < 5 and cell not in places and cell not in taken:
            places.append(cell)
    return {
        "turn": turn,
        "snakes": [[list(cell) for cell in body] for body in bodies],
        "directions": [snakes[i][1] if i in snakes else RIGHT for i in range(6)],
        "beans": [list(cell) for cell in places],
    }


def crowded(free: list[Cell], hole: list[Cell], move: int) -> tuple[dict[str, Any], list[int]]:
    """A board where snake 0, lying on `hole`, dies by `move`, and only the cells of `free` are free once it is gone.

    The five others fill everything else. Each has its tail beside its head and moves onto it, so that the cells they
    cover stay the same.
    """
    target = beside(hole[0], move)
    solid = [(r, c) for r in range(ROWS) for c in range(COLUMNS) if (r, c) not in free]
    beans: list[Cell] = []
    for cell in reversed(solid):
        if len(beans) < 5 and cell != target:
            beans.append(cell)
    fill = [cell for cell in solid if cell not in beans]
    cuts = [len(fill) * k // 5 for k in range(6)]
    snakes = {0: (hole, move)}
    moves = [move]
    for k in range(5):
        part = fill[cuts[k] : cuts[k + 1]]
        head, tail = next(
            (a, b)
            for a in part
            for b in part
            if b == beside(a, RIGHT) and b != target  # a head there would die too
        )
        middle = [cell for cell in part if cell not in (head, tail)]
        snakes[k + 1] = ([head, *middle, tail], RIGHT)
        moves.append(RIGHT)
    return board(snakes, beans), moves


def play(match: dict[str, Any], moves: dict[int, int] | list[int] | None = None) -> Outcome:
    """One turn; snakes without a move go straight on."""
    straight = list(match["directions"])
    if isinstance(moves, dict):
        for snake, move in moves.items():
            straight[snake] = move
    elif moves is not None:
        straight = moves
    arena = BatchArena(1, seed=1)
    arena.start()
    arena.set_match(0, match)
    events = arena.play_turn(torch.tensor([straight]))
    return Outcome(
        arena.get_match(0),
        events.ate[0].tolist(),
        events.died[0].tolist(),
        events.reward[0].tolist(),
        bool(events.over[0]),
    )


def copies(match: dict[str, Any], count: int, seed: int) -> BatchArena:
    """Many matches in the same state, each with its own random numbers."""
    arena = BatchArena(count, seed=seed)
    arena.start()
    arena.set_match(0, match)
    arena.state[:] = arena.state[0].clone()
    return arena


def assert_uniform(counts: np.ndarray, what: str) -> None:
    """Chi-square test against equal shares, at p = 1e-6 (the quantile by Wilson and Hilferty's formula)."""
    counts = np.asarray(counts, float)
    expected = counts.sum() / counts.size
    assert expected >= 5, f"{what}: too few draws for {counts.size} outcomes"
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 4.7534 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, f"{what}: chi-square {statistic:.1f} over {freedom} degrees of freedom, limit {limit:.1f}"
