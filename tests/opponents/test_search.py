"""The searches against slow ones written with sets and dictionaries, on positions in play."""

from typing import Any

import numpy as np
import pytest
from helpers.drawn_boards import STEPS, Cell, arena_of, beside, draw, positions_in_play
from test_bitboard import pack, unpack

from arena.match_dict import to_dict
from arena.rules import COLUMNS, TEAM
from opponents import search
from opponents.tactics import tail_may_stay

SEED = 29
DEPTHS = (1, 2, 5, 10, 14)


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


def walk(board: Board, first: Cell, goals: set[Cell], moves: int) -> tuple[int, int]:
    """How many cells can be reached without standing still, and on which move first a goal."""
    seen = {first: 1}
    for move in range(2, moves + 1):
        fresh = board.steps({cell for cell, when in seen.items() if when == move - 1}, move) - set(seen)
        seen |= dict.fromkeys(fresh, move)
    return len(seen), min((when for cell, when in seen.items() if cell in goals), default=0)


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


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return positions_in_play(SEED, matches=14, every=20).state.numpy()


def test_bodies_and_beans_are_those_of_the_match(rows) -> None:
    for row in rows:
        match = to_dict(row)
        segments = {tuple(cell) for body in match["snakes"] for cell in body}
        assert unpack(search.bodies(row)) == numbers(segments), f"seed {SEED}: {match}"
        assert unpack(search.beans(row)) == numbers({tuple(cell) for cell in match["beans"]}), f"seed {SEED}: {match}"


@pytest.mark.parametrize("moves", DEPTHS)
def test_explore_reaches_what_a_plain_search_reaches(moves, rows) -> None:
    for row in rows:
        board = Board(to_dict(row))
        taken = search.bodies(row)
        for snake, head in board.heads.items():
            first = beside(head, (snake + moves) % 4)
            found = search.explore(row, taken, number(first), pack(numbers(board.beans)), moves)
            expected = walk(board, first, board.beans, moves)
            assert found == expected, f"seed {SEED}, snake {snake} enters {first}: {to_dict(row)}"


@pytest.mark.parametrize("moves", DEPTHS)
def test_contest_shares_the_board_out_like_a_plain_search(moves, rows) -> None:
    for row in rows:
        board = Board(to_dict(row))
        taken = search.bodies(row)
        for snake, head in board.heads.items():
            first = beside(head, (snake + moves) % 4)
            found = search.contest(row, taken, snake, number(first), pack(numbers(board.beans)), moves)
            expected = share_out(board, snake, first, moves)
            assert found == expected, f"seed {SEED}, snake {snake} enters {first}: {to_dict(row)}"


def explored(drawing: str, first: Cell, moves: int) -> tuple[int, int]:
    row = arena_of(draw(drawing, at=(0, 0))).state[0].numpy()
    return search.explore(row, search.bodies(row), number(first), search.beans(row), moves)


def test_explore_says_on_which_move_a_goal_is_entered() -> None:
    drawing = ">>A..*."
    assert [explored(drawing, (0, 3), moves)[1] for moves in (1, 2, 3, 9)] == [0, 0, 3, 3]
    assert explored(drawing, (0, 5), 1) == (1, 1)


def test_explore_counts_the_first_cell_and_then_diamonds() -> None:
    """In the open, without cells taken on the way: 1, then 3 more (the head behind is taken), and so on."""
    assert [explored("....... ....... >>A.... ....... .......", (2, 3), moves)[0] for moves in (1, 2)] == [1, 4]


def entered_on(drawing: str, first: Cell, cell: Cell, moves: int = 14) -> int:
    """On which move a walk that begins on `first` first enters a cell; 0 = never."""
    row = arena_of(draw(drawing, at=(0, 0))).state[0].numpy()
    return search.explore(row, search.bodies(row), number(first), pack({number(cell)}), moves)[1]


def test_a_body_can_be_followed_from_its_tail_on_segment_by_segment() -> None:
    assert [entered_on(">>A.>>>>>D", (0, 3), (0, 4 + k)) for k in range(6)] == [2, 3, 4, 5, 6, 7]
    assert entered_on(">>A>>>>>>D", (0, 3), (0, 3)) == 1


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_head_stands_in_the_way_for_as_many_moves_as_its_snake_is_long(length) -> None:
    """From the cell before the head; the walk may come back to it by a detour, but not before it is left."""
    drawing = ">>A.D" + "<" * (length - 1)
    when = entered_on(drawing, (0, 3), (0, 4))
    assert when == 0 or when >= length
    assert entered_on(drawing, (0, 3), (0, 4), moves=length - 1) == 0


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        (">>A>>>D*", True),
        (">>A>>>D.*", False),
        ("......* >>A>>>D", True),
        ("...*... >>A>>>D", False),  # a bean beside the tail is not beside the head
    ],
)
def test_a_tail_may_stay_if_a_bean_is_beside_its_snakes_head(drawing, expected) -> None:
    row = arena_of(draw(drawing, at=(0, 0))).state[0].numpy()
    cell = number((drawing.split().index(next(line for line in drawing.split() if "A" in line)), 3))
    assert bool(tail_may_stay(row, 0, cell)) is expected
    assert not tail_may_stay(row, 3, cell), "the own tail leaves when the head follows it: no bean lies there"


def test_free_cells_and_beans_are_no_tails_that_may_stay() -> None:
    row = arena_of(draw(">>A*", at=(0, 0))).state[0].numpy()
    assert not tail_may_stay(row, 0, 3)
    assert not tail_may_stay(row, 0, 5)
