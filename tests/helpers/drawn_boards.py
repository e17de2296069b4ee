"""Boards drawn as text, positions from play, and the decisions of an opponent on them.

A drawing: A-F are the heads of snakes 0-5 (A, B, C mates; D, E, F foes), arrows are body cells and point to the next
segment towards the head, * is a bean, . is free. The head goes on as its neck points. Snakes that are not drawn wait
in nobody's way, to the right of the drawing.
"""

from typing import Any, NamedTuple

import torch

from arena import BatchArena
from arena.rules import COLUMNS, DIRECTION, DOWN, LEFT, RIGHT, ROWS, SNAKES, TEAM, UP
from opponents.loops import act
from opponents.scripted import SCRIPTED

Cell = tuple[int, int]
STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
ARROWS = {"^": UP, "v": DOWN, "<": LEFT, ">": RIGHT}
LETTERS = {UP: "u", DOWN: "d", LEFT: "l", RIGHT: "r"}
WAITING_ROWS = (0, 2, 4, 6, 7, 9)
WAITING_COLUMN = 15  # from the drawing's left edge: a drawing has up to ten columns, the torus twenty
PLAIN = (1, 2)
# Where drawings are put: in the open, across the top edge, across the left edge, across both.
PLACES = (PLAIN, (8, 3), (1, 17), (6, 15))
SWAP_TEAMS = (3, 4, 5, 0, 1, 2)
# By the length of A, who enters a room of four cells: four cells can turn in it until the way out is free, five cannot.
CIRCLE = {
    length: f"""
        v<<<<<<
        v.>>>v.
        >>^..v.
        >>A..v.
        ^.D<<<.
        {tail}......
        """
    for length, tail in ((4, "."), (5, "^"))
}
NO_MOVE = -1


def beside(cell: Cell, direction: int) -> Cell:
    """The next cell around the torus."""
    step = STEPS[direction]
    return ((cell[0] + step[0]) % ROWS, (cell[1] + step[1]) % COLUMNS)


def draw(drawing: str, at: Cell = PLAIN, swap: bool = False) -> dict[str, Any]:
    """The match of a drawing whose upper left corner is put on the cell `at`; `swap` exchanges the teams."""
    marks: dict[Cell, str] = {}
    lines = drawing.split()
    assert len(lines) <= ROWS, drawing
    for row, line in enumerate(lines):
        assert len(line) <= 10, f"columns beyond the tenth belong to those that wait: {line}"
        for column, mark in enumerate(line):
            marks[(at[0] + row) % ROWS, (at[1] + column) % COLUMNS] = mark
    snakes, directions = [], []
    for snake in range(SNAKES):
        heads = [cell for cell, mark in marks.items() if mark == "ABCDEF"[snake]]
        if heads:
            body = heads
            while behind := [c for c, mark in marks.items() if mark in ARROWS and beside(c, ARROWS[mark]) == body[-1]]:
                assert len(behind) == 1, f"two segments point at {body[-1]}:\n{drawing}"
                body = body + behind
            direction = ARROWS[marks[body[1]]]
        else:
            row = (at[0] + WAITING_ROWS[snake]) % ROWS
            body = [(row, (at[1] + WAITING_COLUMN - i) % COLUMNS) for i in range(3)]
            direction = RIGHT
        snakes.append([list(cell) for cell in body])
        directions.append(direction)
    beans = [list(cell) for cell, mark in marks.items() if mark == "*"]
    arrows = sum(mark in ARROWS for mark in marks.values())
    drawn = sum(len(body) - 1 for i, body in enumerate(snakes) if "ABCDEF"[i] in drawing)
    assert arrows == drawn, f"segments that belong to nobody:\n{drawing}"
    match = {"turn": 20, "snakes": snakes, "directions": directions, "beans": beans}
    return relabelled(match, SWAP_TEAMS) if swap else match


def relabelled(match: dict[str, Any], names: tuple[int, ...]) -> dict[str, Any]:
    """The same board with other names for the snakes: new snake i is old snake names[i]."""
    lists = {what: [match[what][old] for old in names] for what in ("snakes", "directions")}
    return match | lists


def arena_of(*matches: dict[str, Any], seed: int = 1) -> BatchArena:
    """These matches side by side."""
    arena = BatchArena(len(matches), seed=seed)
    arena.start()
    for i, match in enumerate(matches):
        arena.set_match(i, match)
    return arena


def every_seat(matches: int, device: str | torch.device = "cpu") -> torch.Tensor:
    return torch.arange(matches * SNAKES, dtype=torch.int32, device=device)


def decisions(name: str, arena: BatchArena, seats: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    """The opponent's moves, [B, 6] int8; NO_MOVE for seats that are not given."""
    moves = torch.full((arena.matches, SNAKES), NO_MOVE, dtype=torch.int8, device=arena.device)
    seats = every_seat(arena.matches, arena.device) if seats is None else seats
    act(SCRIPTED[name], arena, seats, moves, **options)
    return moves


def choices(name: str, drawing: str) -> dict[str, str]:
    """The move of snake A on the drawing (u, d, l, r), in every place on the torus and in either team."""
    cases = {f"at {at}{', teams swapped' * swap}": (at, swap) for at in PLACES for swap in (False, True)}
    arena = arena_of(*(draw(drawing, at, swap) for at, swap in cases.values()))
    moves = decisions(name, arena)
    return {case: LETTERS[int(moves[i, TEAM if swap else 0])] for i, (case, (_, swap)) in enumerate(cases.items())}


class Positions(NamedTuple):
    """Positions of many matches, as the arena keeps them."""

    state: torch.Tensor  # [N, MATCH_BYTES]
    keys: torch.Tensor  # [N]

    def arena(self, chosen: torch.Tensor | slice = slice(None)) -> BatchArena:
        """An arena in all these positions, or in the chosen ones."""
        state = self.state[chosen]
        arena = BatchArena(len(state))
        arena.start()
        arena.state.copy_(state)
        arena.keys.copy_(self.keys[chosen])
        return arena


def positions_in_play(seed: int, matches: int = 48, every: int = 8) -> Positions:
    """Positions out of whole matches of all opponents with some random moves: long snakes, deaths, odd respawns."""
    arena = BatchArena(matches, seed=seed)
    arena.start()
    # Each match has one kind of opponent on both sides.
    kind = torch.arange(matches).remainder(len(SCRIPTED)).to(torch.uint8)
    states, keys = [], []
    for turn in range(200):
        if turn % every == every - 1:
            states.append(arena.state.clone())
            keys.append(arena.keys.clone())
        moves = torch.zeros(matches, SNAKES, dtype=torch.int8)
        for mine, function in enumerate(SCRIPTED.values()):
            act(function, arena, every_seat(matches), moves, noise=0.05, which=kind, mine=mine)
        arena.play_turn(moves)
    return Positions(torch.cat(states), torch.cat(keys))


def stored_directions(arena: BatchArena) -> torch.Tensor:
    return arena.state[:, DIRECTION : DIRECTION + SNAKES].to(torch.int8)
