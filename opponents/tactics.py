"""What the scripted opponents know of a position: distances, the bean to go for, and the dangers of a cell.

All functions take a match's bytes or cells and return numbers. They allocate nothing, so they run on the CPU and in
CUDA kernels. Distances and neighbours are read from small tables, and beans are compared without jumps: decisions are
random to the processor's branch prediction. So `level4` decides in 107 ns on a Neoverse-N1 core; with arithmetic and
jumps it took 353 ns.

A snake without a body counts as a head on the cell in its HEAD byte. Such a match is over, so its moves do not matter.
"""

from itertools import product

import numpy as np

from arena.jit import njit
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    CELLS,
    COLUMNS,
    DIRECTION,
    HEAD,
    LEFT,
    ROWS,
    TEAM,
    first_foe,
    first_mate,
    turns_until_free,
)

NO_BEAN = -1
FAR = 1000  # moves: more than any distance with all costs

# --- tables of the torus ----------------------------------------------------------------------------------------------

# Cells are numbered again with twice as many columns, so that the difference of two numbers gives both the rows and the
# columns between two cells. Tables of distances then need one entry per difference, not per pair of cells.
WIDE_COLUMNS = 2 * COLUMNS
DIFFERENCES = 1024  # a power of two above all differences; negative ones are taken modulo this number


def _wide_numbers() -> np.ndarray:
    """The number of each cell with twice as many columns."""
    cells = np.arange(CELLS)
    return (cells // COLUMNS * WIDE_COLUMNS + cells % COLUMNS).astype(np.int16)


def _routes() -> tuple[np.ndarray, np.ndarray]:
    """For each difference of two cells the distance, and the moves from the first that lead nearer: bit 1 << move."""
    distances, moves = np.zeros(DIFFERENCES, np.uint8), np.zeros(DIFFERENCES, np.uint8)
    for rows, columns in product(range(1 - ROWS, ROWS), range(1 - COLUMNS, COLUMNS)):
        up, down, left, right = -rows % ROWS, rows % ROWS, -columns % COLUMNS, columns % COLUMNS
        nearer = (0 < up <= down, 0 < down <= up, 0 < left <= right, 0 < right <= left)
        difference = rows * WIDE_COLUMNS + columns
        distances[difference] = min(up, down) + min(left, right)
        moves[difference] = sum(bit << move for move, bit in enumerate(nearer))
    return distances, moves


def _neighbours() -> np.ndarray:
    """[CELLS, 4]: the next cell in each direction, as arena.rules.neighbour computes it."""
    rows, columns = np.divmod(np.arange(CELLS), COLUMNS)
    steps = ((-1, 0), (1, 0), (0, -1), (0, 1))
    cells = [(rows + down) % ROWS * COLUMNS + (columns + right) % COLUMNS for down, right in steps]
    return np.stack(cells, axis=1).astype(np.uint8)


WIDE_NUMBERS = _wide_numbers()
DISTANCES, NEARER_MOVES = _routes()
NEIGHBOURS = _neighbours()
# For each difference of two heads the moves of the first to a cell that both may enter: 1 in the byte of the move.
# They must be two moves apart.
MEETING_MOVES = sum(((DISTANCES == 2) * NEARER_MOVES >> move & 1).astype(np.int32) << 8 * move for move in range(4))


# "+ 0" below makes a byte a signed integer: for Numba int() of a byte is still a byte.


@njit
def difference(a, b):
    """Where the tables have the way from cell a to cell b."""
    return (WIDE_NUMBERS[b] - WIDE_NUMBERS[a]) & DIFFERENCES - 1


@njit
def distance(a, b):
    """Moves from one cell to another around the torus."""
    return int(DISTANCES[difference(a, b)]) + 0


@njit
def moves_towards(head, goal):
    """The moves that bring a head nearer to a cell, as bits 1 << move. None for NO_BEAN."""
    return 0 if goal == NO_BEAN else int(NEARER_MOVES[difference(head, goal)]) + 0


@njit
def candidate(head, direction, number):
    """Move and cell of candidate 0 (straight on), 1 or 2 (the turns to either side). The reversal is no candidate."""
    move = direction
    if number > 0:
        move = number - 1 + (LEFT if direction < LEFT else 0)
    return move, int(NEIGHBOURS[head, move]) + 0


# --- beans ------------------------------------------------------------------------------------------------------------


@njit
def head_of(match, snake):
    """The cell of a snake's head."""
    return int(match[HEAD + snake]) + 0


@njit
def direction_of(match, snake):
    """The stored direction of a snake: the opposite move is the reversal."""
    return int(match[DIRECTION + snake]) + 0


@njit
def any_nearer(match, first, cell, moves):
    """Whether one of the three snakes from `first` is fewer than `moves` moves away from a cell."""
    found = False
    for snake in range(first, first + TEAM):
        found |= distance(head_of(match, snake), cell) < moves
    return found


@njit
def nearest_bean(match, snake, mate_cost, foe_cost):
    """The cell of the bean with the lowest cost, the first of equals; NO_BEAN if there are no beans.

    The cost is the distance, plus `mate_cost` if a mate is nearer to the bean, plus `foe_cost` if a foe is.
    """
    head = head_of(match, snake)
    lowest, nearest = FAR, NO_BEAN
    for i in range(int(match[BEAN_COUNT])):
        bean = int(match[BEANS + i]) + 0
        own = distance(head, bean)
        cost = own
        if mate_cost > 0:
            cost += mate_cost * int(any_nearer(match, first_mate(snake), bean, own))
        if foe_cost > 0:
            cost += foe_cost * int(any_nearer(match, first_foe(snake), bean, own))
        if cost < lowest:
            lowest, nearest = cost, bean
    return nearest


# --- dangers ----------------------------------------------------------------------------------------------------------


@njit
def heads_beside(match, first, head):
    """For each move from `head`, how many of the three snakes from `first` may enter the same cell: a byte per move."""
    counts = 0
    for other in range(first, first + TEAM):
        counts += MEETING_MOVES[difference(head, head_of(match, other))]
    return counts


@njit
def of_move(counts, move):
    """The number of one move out of a byte per move."""
    return counts >> 8 * move & 255


@njit
def free_ways_on(match, cell, move):
    """How many of the three cells around `cell`, entered with `move`, can be entered on the turn after."""
    free = 0
    for number in range(3):
        _, beyond = candidate(cell, move, number)
        free += int(turns_until_free(match, beyond) <= 2)
    return free
