"""Sets of cells in four words against Python's own sets."""

import random

from helpers.drawn_boards import STEPS, beside
from helpers.plain_search import pack, unpack

from arena.bitboard import EMPTY, both, count, either, is_empty, neighbours, of_cell, without
from arena.rules import CELLS, COLUMNS, SNAKES, SPARE

SEED = 3


def around(cells: set[int]) -> set[int]:
    found = {beside(divmod(cell, COLUMNS), direction) for cell in cells for direction in STEPS}
    return {row * COLUMNS + column for row, column in found}


def random_sets() -> list[set[int]]:
    """From empty to full boards, and whole rows and columns, where the words meet and the torus closes."""
    generator = random.Random(SEED)
    sets = [set(generator.sample(range(CELLS), size)) for size in (0, 1, 2, 5, 20, 60, 100, 150, 199, 200) * 4]
    rows = [set(range(row * COLUMNS, (row + 1) * COLUMNS)) for row in range(CELLS // COLUMNS)]
    columns = [set(range(column, CELLS, COLUMNS)) for column in range(COLUMNS)]
    return sets + rows + columns


def test_one_cell_is_a_set_of_its_own_with_four_neighbours() -> None:
    for cell in range(CELLS):
        words = of_cell(cell)
        assert unpack(words) == {cell}
        assert count(words) == 1, f"cell {cell}"
        assert unpack(neighbours(words)) == around({cell}), f"cell {cell}"


def test_a_spare_cell_is_not_on_the_board() -> None:
    for cell in range(SPARE, SPARE + SNAKES):
        assert of_cell(cell) == EMPTY


def test_neighbours_are_those_around_the_torus() -> None:
    for cells in random_sets():
        assert unpack(neighbours(pack(cells))) == around(cells), f"seed {SEED}: {sorted(cells)}"


def test_counts_are_those_of_the_set() -> None:
    for cells in random_sets():
        words = pack(cells)
        assert count(words) == len(cells), f"seed {SEED}: {sorted(cells)}"
        assert bool(is_empty(words)) == (not cells)


def test_pairs_of_sets_combine_like_sets() -> None:
    sets = random_sets()
    generator = random.Random(SEED)
    for a in sets:
        b = generator.choice(sets)
        one, other = pack(a), pack(b)
        assert unpack(either(one, other)) == a | b, f"seed {SEED}"
        assert unpack(both(one, other)) == a & b, f"seed {SEED}"
        assert unpack(without(one, other)) == a - b, f"seed {SEED}"


def test_the_empty_set_stays_empty() -> None:
    assert is_empty(EMPTY)
    assert unpack(neighbours(EMPTY)) == set()
    assert count(EMPTY) == 0
