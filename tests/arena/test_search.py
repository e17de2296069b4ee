"""The searches against slow ones written with sets and dictionaries, on positions in play."""

from collections.abc import Iterator

import numpy as np
import pytest
from helpers.drawn_boards import Cell, arena_of, beside, draw, positions_in_play
from helpers.plain_search import Board, number, numbers, pack, share_out, unpack, walk

from arena import search
from arena.dangers import tail_may_stay
from arena.match_dict import to_dict

SEED = 29
DEPTHS = (1, 2, 5, 10, 14)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return positions_in_play(SEED, matches=14, every=20).state.numpy()


def test_waits_and_beans_are_those_of_the_match(rows) -> None:
    for row in rows:
        match = to_dict(row)
        waits = {tuple(cell): len(body) - k for body in match["snakes"] for k, cell in enumerate(body)}
        for move in range(1, search.MOVES_MAX + 1):
            later = {cell for cell, wait in waits.items() if wait > move}
            assert unpack(search.taken(search.waits_of(row), move)) == numbers(later), f"seed {SEED}, {move}: {match}"
        assert unpack(search.beans(row)) == numbers({tuple(cell) for cell in match["beans"]}), f"seed {SEED}: {match}"


def entries(rows: np.ndarray, moves: int) -> Iterator[tuple[np.ndarray, Board, int, Cell, str]]:
    """Each position, and a cell that each of its snakes enters: row, board, snake, cell, and words for a failure."""
    for row in rows:
        board = Board(to_dict(row))
        for snake, head in board.heads.items():
            first = beside(head, (snake + moves) % 4)
            yield row, board, snake, first, f"seed {SEED}, snake {snake} enters {first}: {to_dict(row)}"


@pytest.mark.parametrize("moves", DEPTHS)
def test_explore_reaches_what_a_plain_search_reaches(moves, rows) -> None:
    for row, board, _, first, words in entries(rows, moves):
        found = search.explore(search.waits_of(row), number(first), search.beans(row), moves)
        assert found == walk(board, first, board.beans, moves), words


@pytest.mark.parametrize("moves", DEPTHS)
def test_contest_shares_the_board_out_like_a_plain_search(moves, rows) -> None:
    for row, board, snake, first, words in entries(rows, moves):
        found = search.contest(row, search.waits_of(row), snake, number(first), search.beans(row), moves)
        assert found == share_out(board, snake, first, moves), words


def explored(drawing: str, first: Cell, moves: int) -> tuple[int, int, int]:
    row = arena_of(draw(drawing, at=(0, 0))).state[0].numpy()
    return search.explore(search.waits_of(row), number(first), search.beans(row), moves)


def test_explore_says_on_which_move_a_goal_is_entered() -> None:
    drawing = ">>A..*."
    assert [explored(drawing, (0, 3), moves)[1] for moves in (1, 2, 3, 9)] == [0, 0, 3, 3]
    assert explored(drawing, (0, 5), 1) == (1, 1, 1)


def test_explore_counts_the_first_cell_and_then_diamonds() -> None:
    """In the open, without cells taken on the way: 1, then 3 more (the head behind is taken), and so on."""
    assert [explored("....... ....... >>A.... ....... .......", (2, 3), moves)[0] for moves in (1, 2)] == [1, 4]


def entered_on(drawing: str, first: Cell, cell: Cell, moves: int = 14) -> int:
    """On which move a walk that begins on `first` first enters a cell; 0 = never."""
    row = arena_of(draw(drawing, at=(0, 0))).state[0].numpy()
    return search.explore(search.waits_of(row), number(first), pack({number(cell)}), moves)[1]


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
