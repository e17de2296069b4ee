"""Encoders: what one snake sees, as small integers written straight into a row that the caller owns.

All are seat-relative: everything is measured from the own head around the torus, and the others are "mates" and
"foes", never red and blue. Snake 0 and snake 4 in like places see the same numbers, so one network plays every seat.

An encoder is a compiled function that fills a row for one snake, and an `Encoder` that says what the row holds. Its
version is raised whenever a number changes its meaning; snapshots carry name and version, so that a network never
plays blind.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arena.encoders.distances import bean_distances, near_heads, wrapped
from arena.encoders.orientation import FRAMES, MIRRORED, back, forth, seen, unseen
from arena.encoders.packed_bytes import (
    around,
    difference,
    forward,
    lane,
    short_way,
)
from arena.jit import njit, njit_inline
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    CELLS,
    COLUMNS,
    DIRECTION,
    DOWN,
    HEAD,
    LEFT,
    LENGTH,
    LINK,
    RIGHT,
    ROWS,
    SNAKES,
    TAIL,
    TEAM,
    TURN,
    TURNS,
    UP,
    turns_until_free,
)

if TYPE_CHECKING:
    import torch

WAIT_MAX = 8  # turns until a cell is free, capped: further ahead than this the body will have moved elsewhere


class Encoder(NamedTuple):
    """What a row of an encoder holds: declared bounds, and the factors that bring each number to about [-1, 1]."""

    name: str
    version: int
    dtype: type
    low: np.ndarray
    high: np.ndarray
    scale: np.ndarray
    frame_at: int | None = None  # where the frame is noted that the board was held in; None: always as it is

    @property
    def width(self) -> int:
        return len(self.low)

    def frames(self, rows: "torch.Tensor") -> "torch.Tensor":
        """The frames of rows [N, W], there where they stand in the rows; 0 if none are noted."""
        return rows.new_zeros(len(rows)) if self.frame_at is None else rows[:, self.frame_at]


# --- features, turned: a compact vector of 80 signed bytes ------------------------------------------------------------
# `features` is the board as it is; in `turned` the snake holds it so that it looks up (frames.py), and its moves are
# counted in that frame.
# Assembled in registers and stored as ten 64-bit words: byte by byte, the stores alone took longer than all the rest.

F_AROUND = 0  # [12] the cells up to two moves from the head, row by row: turns until free, 0 = free now
F_DIRECTION = 12  # [4] own stored direction, one-hot: its opposite is the move that would be replaced by a random one
F_FOES_NEAR = 16  # [4] per move: foes' heads that could enter the same cell this turn
F_MATES_NEAR = 20  # [4] likewise for mates
F_LENGTH = 24  # own length
F_TURNS_LEFT = 25  # halved
F_LEAD = 26  # own team's length minus the foes'; the byte after it is always 0
F_BEANS = 28  # [5 x 4] nearest first: rows, columns, lead over the nearest foe, over the nearest mate
F_MATES = 48  # [2 x 5] nearest first: rows, columns, length, direction in rows, in columns
F_FOES = 58  # [3 x 5] likewise
F_SIDEWAYS = 78  # 1 where the frame has turned the board by a quarter, so that it is 20 cells ahead and not 10
F_FRAME = 79  # not for the network
F_WIDTH = 80  # all other bytes are always 0
F_WAYS = (*range(F_BEANS, F_MATES, 4), *range(F_MATES, F_FOES + 15, 5))  # where rows and columns to something begin

LEAD_MAX = 15  # the longest way on the torus is 5 + 10
MASK32 = 0xFFFFFFFF
MASK40 = 0xFFFFFFFFFF
NO_BEAN = (31 << 32) | (256 - LEAD_MAX) << 24 | (256 - LEAD_MAX) << 16
# Two signed bytes (rows, columns) for each of the four directions.
STEP_BYTES = 0x0100FF00000100FF
EACH = 0x000000FF000000FF


@njit
def order(a, b):
    return min(a, b), max(a, b)


@njit
def wait(match, row, column, frame, rows, columns):
    """Turns until the cell is free that is seen so many rows and columns away, capped; 0 if it is free now."""
    rows, columns = unseen(frame, rows, columns)
    row = wrapped(row + rows, ROWS) if rows != 0 else row
    column = wrapped(column + columns, COLUMNS) if columns != 0 else column
    cell = (row * COLUMNS + column) & 255  # the & shows the compiler that no index is negative
    return max(0, min(WAIT_MAX, turns_until_free(match, cell)))


@njit_inline
def surroundings(match, row, column, frame):
    """The twelve cells up to two moves away: eight bytes and four."""
    first = wait(match, row, column, frame, -2, 0)
    first |= wait(match, row, column, frame, -1, -1) << 8
    first |= wait(match, row, column, frame, -1, 0) << 16
    first |= wait(match, row, column, frame, -1, 1) << 24
    first |= wait(match, row, column, frame, 0, -2) << 32
    first |= wait(match, row, column, frame, 0, -1) << 40
    first |= wait(match, row, column, frame, 0, 1) << 48
    first |= wait(match, row, column, frame, 0, 2) << 56
    second = wait(match, row, column, frame, 1, -1)
    second |= wait(match, row, column, frame, 1, 0) << 8
    second |= wait(match, row, column, frame, 1, 1) << 16
    second |= wait(match, row, column, frame, 2, 0) << 24
    return first, second


@njit
def signed(byte):
    return (byte ^ 128) - 128


@njit
def way(frame, rows, columns, i):
    """Rows and columns to the thing in lane i as seen in the frame: two bytes."""
    ahead, aside = seen(frame, signed(lane(rows, i)), signed(lane(columns, i)))
    return ahead & 255 | (aside & 255) << 8


@njit
def bean_entry(frame, own, rows, columns, lead_foe, lead_mate, i):
    """A bean as a sortable number: distance, then the four bytes that the vector shows of it."""
    leads = lane(lead_foe, i) << 16 | lane(lead_mate, i) << 24
    return lane(own, i) << 32 | way(frame, rows, columns, i) | leads


@njit
def steps_in(frame):
    """Two signed bytes (rows, columns) for each of the four directions, as seen in the frame."""
    up, down = STEP_BYTES >> 16 * forth(frame, UP) & 0xFFFF, STEP_BYTES >> 16 * forth(frame, DOWN) & 0xFFFF
    left, right = STEP_BYTES >> 16 * forth(frame, LEFT) & 0xFFFF, STEP_BYTES >> 16 * forth(frame, RIGHT) & 0xFFFF
    return up | down << 16 | left << 32 | right << 48


@njit
def head_entry(match, frame, steps, lengths, far, rows, columns, i):
    """Another snake as a sortable number: distance, then the five bytes that the vector shows of it."""
    direction = (steps >> 16 * int(match[DIRECTION + i])) & 0xFFFF
    return lane(far, i) << 40 | way(frame, rows, columns, i) | lane(lengths, i) << 16 | direction << 24


@njit
def in_frame(frame, near):
    """A byte for each move, and another four bytes further up, for the moves of the frame."""
    ahead, behind = near >> 8 * back(frame, UP) & EACH, near >> 8 * back(frame, DOWN) & EACH
    left, right = near >> 8 * back(frame, LEFT) & EACH, near >> 8 * back(frame, RIGHT) & EACH
    return ahead | behind << 8 | left << 16 | right << 24


@njit_inline
def bean_ways(shared, snake):
    """Rows and columns to each bean as signed bytes, and its distances, in lanes: own, lead over foes and mates."""
    own, mate, foe = bean_distances(shared, snake)
    rows = short_way(forward(shared.bean_rows, lane(shared.head_rows, snake), ROWS), ROWS)
    columns = short_way(forward(shared.bean_columns, lane(shared.head_columns, snake), COLUMNS), COLUMNS)
    return own, rows, columns, difference(foe, own), difference(mate, own)


@njit_inline
def own_frame(match, snake, shared):
    """The frame in which a snake looks up and its nearest bean is not on the left."""
    frame = int(match[DIRECTION + snake])
    own, rows, columns, lead_foe, lead_mate = bean_ways(shared, snake)
    nearest = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 0)
    for i in range(1, BEANS_MAX):
        nearest = min(nearest, bean_entry(frame, own, rows, columns, lead_foe, lead_mate, i))
    on_the_left = int(nearest >> 15 & 1 == 1 and int(match[BEAN_COUNT]) > 0)
    return frame + MIRRORED * on_the_left


@njit_inline
def features(match, snake, shared, out):
    """Encode one snake's view as the vector of `features`; out is a row of ten 64-bit words."""
    vector(match, snake, shared, 0, out)


@njit_inline
def turned(match, snake, shared, out):
    """Encode one snake's view as the vector of `turned`; out is a row of ten 64-bit words."""
    vector(match, snake, shared, own_frame(match, snake, shared), out)


@njit_inline
def vector(match, snake, shared, frame, out):
    """Encode what one snake sees when it holds the board in a frame."""
    row = lane(shared.head_rows, snake)
    column = lane(shared.head_columns, snake)
    team = snake - snake % TEAM
    foes = TEAM - team
    mate0 = team + (snake + 1) % TEAM
    mate1 = team + (snake + 2) % TEAM

    rows = forward(shared.head_rows, row, ROWS)
    columns = forward(shared.head_columns, column, COLUMNS)
    far = around(rows, ROWS) + around(columns, COLUMNS)
    near = near_heads(rows, columns, far, snake)
    rows = short_way(rows, ROWS)
    columns = short_way(columns, COLUMNS)
    steps = steps_in(frame)
    # Sorting networks on packed numbers: no scratch array, no jumps.
    m0, m1 = order(
        head_entry(match, frame, steps, shared.lengths, far, rows, columns, mate0),
        head_entry(match, frame, steps, shared.lengths, far, rows, columns, mate1),
    )
    f0, f1 = order(
        head_entry(match, frame, steps, shared.lengths, far, rows, columns, foes),
        head_entry(match, frame, steps, shared.lengths, far, rows, columns, foes + 1),
    )
    f1, f2 = order(f1, head_entry(match, frame, steps, shared.lengths, far, rows, columns, foes + 2))
    f0, f1 = order(f0, f1)

    own, rows, columns, lead_foe, lead_mate = bean_ways(shared, snake)
    a = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 0)
    b = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 1)
    c = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 2)
    d = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 3)
    e = bean_entry(frame, own, rows, columns, lead_foe, lead_mate, 4)
    count = int(match[BEAN_COUNT])
    if count < BEANS_MAX:  # only on a board that is full
        a = a if count > 0 else NO_BEAN
        b = b if count > 1 else NO_BEAN
        c = c if count > 2 else NO_BEAN
        d = d if count > 3 else NO_BEAN
        e = NO_BEAN
    a, d = order(a, d)
    b, e = order(b, e)
    a, c = order(a, c)
    b, d = order(b, d)
    a, b = order(a, b)
    c, e = order(c, e)
    b, c = order(b, c)
    d, e = order(d, e)
    c, d = order(c, d)

    length = lane(shared.lengths, snake)
    lead = shared.red_lead if snake < TEAM else -shared.red_lead
    first, second = surroundings(match, row, column, frame)

    out[0] = first
    out[1] = second | 1 << 32 + 8 * forth(frame, int(match[DIRECTION + snake]))
    out[2] = in_frame(frame, near)
    out[3] = length | shared.turns_left >> 1 << 8 | (lead & 255) << 16 | (a & MASK32) << 32
    out[4] = (b & MASK32) | (c & MASK32) << 32
    out[5] = (d & MASK32) | (e & MASK32) << 32
    out[6] = (m0 & MASK40) | (m1 & 0xFFFFFF) << 40
    out[7] = (m1 & MASK40) >> 24 | (f0 & MASK40) << 16 | (f1 & 255) << 56
    out[8] = (f1 & MASK40) >> 8 | (f2 & MASK32) << 32
    out[9] = (f2 & MASK40) >> 32 | (frame >> 1 & 1) << 48 | frame << 56


def _describe_features() -> Encoder:
    low = np.zeros(F_WIDTH, np.int8)
    high = np.ones(F_WIDTH, np.int8)
    scale = np.ones(F_WIDTH, np.float32)

    def declare(at: int, least: int, most: int, factor: float) -> None:
        low[at], high[at], scale[at] = least, most, factor

    for i in range(12):
        declare(F_AROUND + i, 0, WAIT_MAX, 1 / WAIT_MAX)
    for at in F_WAYS:
        declare(at, -ROWS // 2, ROWS // 2 - 1, 2 / ROWS)
        declare(at + 1, -COLUMNS // 2, COLUMNS // 2 - 1, 2 / COLUMNS)
    declare(F_LENGTH, 0, 127, 0.05)
    declare(F_TURNS_LEFT, 0, TURNS // 2, 2 / TURNS)
    for i in range(4):
        declare(F_FOES_NEAR + i, 0, TEAM, 1.0)
        declare(F_MATES_NEAR + i, 0, TEAM - 1, 1.0)
    for i in range(BEANS_MAX):
        declare(F_BEANS + 4 * i + 2, -LEAD_MAX, LEAD_MAX, 0.1)
        declare(F_BEANS + 4 * i + 3, -LEAD_MAX, LEAD_MAX, 0.1)
    declare(F_LEAD, -127, 127, 0.05)
    declare(F_LEAD + 1, 0, 0, 1.0)
    for at in range(F_MATES, F_FOES + 15, 5):
        declare(at + 2, 0, 127, 0.05)
        declare(at + 3, -1, 1, 1.0)
        declare(at + 4, -1, 1, 1.0)
    for at in range(F_FOES + 15, F_WIDTH):
        declare(at, 0, 0, 1.0)
    return Encoder("features", 1, np.int8, low, high, scale)


def _describe_turned() -> Encoder:
    low, high, scale = (array.copy() for array in _describe_features()[3:6])
    for at in F_WAYS:
        low[at : at + 2], high[at : at + 2] = -COLUMNS // 2, COLUMNS // 2
    high[F_SIDEWAYS] = 1
    high[F_FRAME], scale[F_FRAME] = FRAMES - 1, 0.0
    return Encoder("turned", 1, np.int8, low, high, scale, F_FRAME)


# --- planes: the board as the own head sees it ------------------------------------------------------------------------

PLANES = 6  # own body, mates' bodies, foes' bodies (each: turns until free), mates' heads, foes' heads, beans
SCALARS = 8  # own direction one-hot (4), own length, own team's length, foes' length, turns left
P_OWN, P_MATES, P_FOES, P_MATE_HEADS, P_FOE_HEADS, P_BEANS = 0, 200, 400, 600, 800, 1000
P_SCALARS = PLANES * CELLS
P_WIDTH = P_SCALARS + SCALARS


@njit
def shifted(cell, row_shift, column_shift):
    """Where a cell lies on the plane that has the own head in its middle (row 5, column 10)."""
    row = cell // COLUMNS + row_shift
    column = cell % COLUMNS + column_shift
    row -= ROWS if row >= ROWS else 0
    column -= COLUMNS if column >= COLUMNS else 0
    return (row * COLUMNS + column) & 255


@njit
def planes(match, snake, out):
    """Encode one snake's view as the planes and scalars of `planes`; out is a row of zeros."""
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
        cell = int(match[TAIL + other])
        for wait in range(1, length + 1):
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


def _describe_planes() -> Encoder:
    high = np.ones(P_WIDTH, np.uint8)
    high[:P_MATE_HEADS] = WAIT_MAX
    high[P_SCALARS + 4 :] = CELLS
    scale = np.ones(P_WIDTH, np.float32)
    scale[:P_MATE_HEADS] = 1 / WAIT_MAX
    scale[P_SCALARS + 4 :] = (0.05, 0.02, 0.02, 1 / TURNS)
    return Encoder("planes", 1, np.uint8, np.zeros(P_WIDTH, np.uint8), high, scale)


ENCODERS = {encoder.name: encoder for encoder in (_describe_features(), _describe_turned(), _describe_planes())}
