"""The searches of arena/search.py and their sets of cells, slowly and plainly, with sets and dictionaries."""

from typing import Any

from arena.bitboard import WORD
from arena.dangers import DEPTH
from arena.rules import CELLS, COLUMNS, TEAM, neighbour
from helpers.drawn_boards import STEPS, Cell, beside

WORDS = -(-CELLS // WORD)


def pack(cells: set[int]) -> tuple[int, ...]:
    """By the description of the words, not by the functions under test."""
    return tuple(sum(1 << c % WORD for c in cells if c // WORD == word) for word in range(WORDS))


def unpack(words: tuple[int, ...]) -> set[int]:
    rooms = [min(WORD, CELLS - word * WORD) for word in range(WORDS)]
    assert all(0 <= word < 1 << room for word, room in zip(words, rooms, strict=True)), f"beyond the board: {words}"
    return {word * WORD + bit for word in range(WORDS) for bit in range(WORD) if words[word] >> bit & 1}


def number(cell: Cell) -> int:
    return cell[0] * COLUMNS + cell[1]


def numbers(cells: set[Cell]) -> set[int]:
    return {number(cell) for cell in cells}


class Board:
    """A match in plain terms: where beans and heads are, and from which move on a body cell can be entered."""

    def __init__(self, match: dict[str, Any]) -> None:
        self.beans = {tuple(cell) for cell in match["beans"]}
        self.heads = {snake: tuple(body[0]) for snake, body in enumerate(match["snakes"]) if body}
        self.enterable: dict[Cell, int] = {}
        for body in match["snakes"]:
            for move, cell in enumerate(reversed(body), start=1):
                self.enterable[tuple(cell)] = move

    def steps(self, cells: set[Cell], move: int) -> set[Cell]:
        """Cells beside these that can be entered on the move-th move from now."""
        found = {beside(cell, direction) for cell in cells for direction in STEPS}
        return {cell for cell in found if self.enterable.get(cell, 0) <= move}


def walk(board: Board, first: Cell, goals: set[Cell], moves: int) -> tuple[int, int, int]:
    """How many cells can be reached without standing still, on which move first a goal, and last a new cell."""
    seen = {first: 1}
    for move in range(2, moves + 1):
        fresh = board.steps({cell for cell, when in seen.items() if when == move - 1}, move) - set(seen)
        seen |= dict.fromkeys(fresh, move)
    return len(seen), min((when for cell, when in seen.items() if cell in goals), default=0), max(seen.values())


def share_out(board: Board, snake: int, first: Cell, moves: int) -> tuple[int, int, int]:
    """Who gets where first: each cell goes to whoever comes there first; own before mates, nobody if foes tie."""
    owner: dict[Cell, str] = {}
    own_team = snake // TEAM
    starts = {"own": set(), "mates": set(), "foes": set()}
    for other, head in board.heads.items():
        if other != snake:
            starts["mates" if other // TEAM == own_team else "foes"].add(head)
    cells_of = {"own": 0, "mates": 0, "foes": 0}
    worth = 0
    for move in range(1, moves + 1):
        comers: dict[Cell, set[str]] = {}
        for side, cells in starts.items():
            entered = {first} if side == "own" and move == 1 else board.steps(cells, move)
            for cell in entered - set(owner):
                comers.setdefault(cell, set()).add(side)
        starts = {"own": set(), "mates": set(), "foes": set()}
        for cell, sides in comers.items():
            if move == 1 and cell == first:
                side = "own"  # the search asks what follows once the own head is there
            elif "foes" in sides and len(sides) > 1:
                side = "nobody"
            else:
                side = "own" if "own" in sides else sides.pop()
            owner[cell] = side
            if side != "nobody":
                starts[side].add(cell)
                cells_of[side] += 1
                if cell in board.beans:
                    worth += {"own": 2, "mates": 1, "foes": -1}[side] * (240 // (move + 1))
    return cells_of["own"], cells_of["foes"], worth


def goes_on(waits: dict[int, int], length: int, path: list[int], cell: int) -> bool:
    """Plain recursion: whether a snake can enter the cell after its path and go on until DEPTH turns are over."""
    turn = len(path)
    if waits.get(cell, 0) > turn + 1 or cell in path[max(0, turn + 1 - length) :]:
        return False
    return turn + 1 == DEPTH or any(goes_on(waits, length, [*path, cell], neighbour(cell, a)) for a in range(4))
