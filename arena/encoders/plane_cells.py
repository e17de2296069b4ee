"""Cells of the board in one byte each: how rows of `planes` and their packed form (packed.py) are made on a GPU.

First a byte for each cell of a match, the same for all seats; then eight cells of a snake's view at a time.
"""

from arena.encoders.encoder import WAIT_MAX
from arena.jit import njit
from arena.rules import (
    BEAN,
    BOARD,
    CELLS,
    COLUMNS,
    DIRECTION,
    FREE,
    HEAD,
    LENGTH,
    ROWS,
    SNAKE,
    SNAKES,
    TEAM,
    TURN,
    TURNS,
    first_foe,
    first_mate,
    team_length,
    turns_until_free,
)

WAIT_BITS = 4
# Kinds of cells. A head of a mate or a foe is its body + HEADS.
OWN, MATES, FOES, BEANS, HEADS = 0, 1, 2, 4, 4
HEAD_BIT, WHAT_BITS = 7, 3  # of a cell's byte in front of the rows: a head, what is on the cell, turns until it is free


def _kinds(snake: int) -> int:
    """For a snake the kinds of cells, 4 bits each, by a cell's byte >> WAIT_BITS."""
    kinds = 0
    for what in range(1, 1 << WHAT_BITS):
        other = what - SNAKE
        kind, head = BEANS, 0
        if what != BEAN:
            kind = OWN if other == snake else MATES if other // TEAM == snake // TEAM else FOES
            head = 0 if other == snake else HEADS
        kinds |= kind << 4 * what | kind + head << 4 * (what + (1 << WHAT_BITS))
    return kinds


KINDS_0, KINDS_1, KINDS_2, KINDS_3, KINDS_4, KINDS_5 = map(_kinds, range(SNAKES))


@njit
def packed_cell(match, cell):
    """What is on a cell, for all snakes: a byte."""
    what = int(match[BOARD + cell])
    byte = 0  # signed from here on: for a GPU `what` is unsigned, and Numba joins the two kinds to a float
    if what != FREE and what != BEAN:
        byte |= min(WAIT_MAX, turns_until_free(match, cell))
        if int(match[HEAD + what - SNAKE]) == cell:
            byte |= 1 << HEAD_BIT
    return byte | what << WAIT_BITS


@njit
def view_word(match, snake, cells, at):
    """Eight cells of a snake's view from cell 8 * at on, packed, given packed_cell of all cells.

    (Without divisions for each cell.)
    """
    kinds = KINDS_5
    if snake == 0:
        kinds = KINDS_0
    elif snake == 1:
        kinds = KINDS_1
    elif snake == 2:
        kinds = KINDS_2
    elif snake == 3:
        kinds = KINDS_3
    elif snake == 4:
        kinds = KINDS_4
    head = int(match[HEAD + snake])
    row = (at * 8 // COLUMNS + head // COLUMNS + ROWS - ROWS // 2) % ROWS * COLUMNS
    next_row = row + COLUMNS if row < CELLS - COLUMNS else 0
    place = at * 8 % COLUMNS  # in this row of the view
    column = (place + head % COLUMNS + COLUMNS - COLUMNS // 2) % COLUMNS
    word = 0
    for i in range(8):
        byte = int(cells[row + column])
        word |= (((kinds >> (byte >> WAIT_BITS << 2)) & 15) << WAIT_BITS | (byte & 15)) << 8 * i
        column = column + 1 if column < COLUMNS - 1 else 0
        place += 1
        if place == COLUMNS:
            row = next_row
    return word


@njit
def scalar_word(match, snake):
    """The last word of a packed row of `planes`."""
    word = 1 << 8 * int(match[DIRECTION + snake])
    word |= int(match[LENGTH + snake]) << 32
    word |= team_length(match, first_mate(snake)) << 40
    word |= team_length(match, first_foe(snake)) << 48
    return word | TURNS - int(match[TURN]) << 56
