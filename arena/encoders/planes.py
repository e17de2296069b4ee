"""The encoder `planes`: the whole board, shifted around the torus until the own head is in its middle."""

import numpy as np

from arena.encoders.encoder import WAIT_MAX, CellWords, Encoder
from arena.jit import njit
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BOARD,
    CELLS,
    COLUMNS,
    DIRECTION,
    FREE,
    HEAD,
    LENGTH,
    LINK,
    ROWS,
    SNAKE,
    SNAKES,
    SPARE,
    TAIL,
    TEAM,
    TURN,
    TURNS,
    first_foe,
    first_mate,
    team_length,
    turns_until_free,
)

PLANES = 6  # own body, mates' bodies, foes' bodies (each: turns until free), mates' heads, foes' heads, beans
SCALARS = 8  # own direction one-hot (4), own length, own team's length, foes' length, turns left
P_OWN, P_MATES, P_FOES, P_MATE_HEADS, P_FOE_HEADS, P_BEANS = 0, 200, 400, 600, 800, 1000
P_SCALARS = PLANES * CELLS
P_WIDTH = P_SCALARS + SCALARS


@njit
def shifted(cell, row_shift, column_shift):
    """The index of a cell on a plane with the own head in its middle (row 5, column 10)."""
    row = cell // COLUMNS + row_shift
    column = cell % COLUMNS + column_shift
    row -= ROWS if row >= ROWS else 0
    column -= COLUMNS if column >= COLUMNS else 0
    return (row * COLUMNS + column) & 255


@njit
def last_on_board(match, snake):
    """The cell of a body's last segment on the board, and its place counted from the tail, which is 1.

    A tail that shares its cell with another's is kept on a spare cell (match_dict.py): on the board the cell is the
    other snake's.
    """
    tail = int(match[TAIL + snake])
    if tail < SPARE:
        return tail, 1
    return int(match[LINK + tail]), 2


@njit
def encode_planes(match, snake, common, out):
    """Write the planes and scalars that one snake sees; out is a row of zeros."""
    head = int(match[HEAD + snake])
    row_shift = (ROWS + ROWS // 2 - head // COLUMNS) % ROWS
    column_shift = (COLUMNS + COLUMNS // 2 - head % COLUMNS) % COLUMNS
    own_total = 0
    foe_total = 0
    for other in range(SNAKES):
        length = int(match[LENGTH + other])
        plane = P_OWN
        if other // TEAM != snake // TEAM:
            plane = P_FOES
            foe_total += length
        else:
            own_total += length
            if other != snake:
                plane = P_MATES
        cell, first = last_on_board(match, other)
        for wait in range(first, length + 1):
            out[plane + shifted(cell, row_shift, column_shift)] = min(WAIT_MAX, wait)
            cell = int(match[LINK + cell])
        if other != snake and length > 0:
            heads = P_MATE_HEADS if plane == P_MATES else P_FOE_HEADS
            out[heads + shifted(int(match[HEAD + other]), row_shift, column_shift)] = 1
    for i in range(int(match[BEAN_COUNT])):
        out[P_BEANS + shifted(int(match[BEANS + i]), row_shift, column_shift)] = 1
    out[P_SCALARS + int(match[DIRECTION + snake])] = 1
    out[P_SCALARS + 4] = match[LENGTH + snake]
    out[P_SCALARS + 5] = own_total
    out[P_SCALARS + 6] = foe_total
    out[P_SCALARS + 7] = TURNS - int(match[TURN])


WORDS = CELLS // 8  # of a plane
ONES = 0x0101010101010101  # a 1 in each byte of a word


# --- the same rows on a GPU: first a byte for each cell of a match, for all seats; then eight cells of a view at a time

WAIT_BITS = 4
# Kinds of cells. A head of a mate or a foe is its body + HEADS.
OWN, MATES, FOES, BEAN_KIND, HEADS = 0, 1, 2, 4, 4
HEAD_BIT, WHAT_BITS = 7, 3  # of a cell's byte in front of the rows: a head, what is on the cell, turns until it is free


def _kinds(snake: int) -> int:
    """For a snake the kinds of cells, 4 bits each, by a cell's byte >> WAIT_BITS."""
    kinds = 0
    for what in range(1, 1 << WHAT_BITS):
        other = what - SNAKE
        kind, head = BEAN_KIND, 0
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


@njit
def waits_of(word, kinds, owner):
    """Of eight packed cells: the turns until free where a cell belongs to the owner, else 0."""
    other = kinds & (3 * ONES) ^ owner * ONES  # 0 in the bytes of this owner's cells
    return word & (((other | other >> 1) & ONES) ^ ONES) * 15


@njit
def marks_of(kinds, kind):
    """Of eight packed cells: 1 where a cell is of the kind, else 0."""
    other = kinds ^ kind * ONES
    return ((other | other >> 1 | other >> 2) & ONES) ^ ONES


@njit
def write_plane_words(match, snake, cells, at, out):
    """The same on a GPU, as words: those of eight cells in all planes, given packed_cell of all cells."""
    if at == WORDS:
        out[PLANES * WORDS] = scalar_word(match, snake)
        return
    word = view_word(match, snake, cells, at)
    kinds = (word >> WAIT_BITS) & (7 * ONES)
    out[at] = waits_of(word, kinds, OWN)
    out[WORDS + at] = waits_of(word, kinds, MATES)
    out[2 * WORDS + at] = waits_of(word, kinds, FOES)
    out[3 * WORDS + at] = marks_of(kinds, MATES + HEADS)
    out[4 * WORDS + at] = marks_of(kinds, FOES + HEADS)
    out[5 * WORDS + at] = marks_of(kinds, BEAN_KIND)


def _bounds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest and highest values, and scale."""
    high = np.ones(P_WIDTH, np.uint8)
    high[:P_MATE_HEADS] = WAIT_MAX
    high[P_SCALARS + 4 :] = CELLS
    scale = np.ones(P_WIDTH, np.float32)
    scale[:P_MATE_HEADS] = 1 / WAIT_MAX
    scale[P_SCALARS + 4 :] = (0.05, 0.02, 0.02, 1 / TURNS)
    return np.zeros(P_WIDTH, np.uint8), high, scale


PLANES_ENCODER = Encoder(
    "planes",
    1,
    np.uint8,
    *_bounds(),
    encode_planes,
    P_SCALARS,
    sparse=True,
    cell_words=CellWords(packed_cell, write_plane_words, WORDS + 1),
)
