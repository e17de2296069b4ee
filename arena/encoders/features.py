"""The compact encoders, a vector of 80 signed bytes: `features`, the board as it is, and `canonical`.

In `canonical` the board is turned and mirrored so that the snake looks up and its nearest bean is not on the left
(orientation.py); actions are local then. marl/export/submission_template.py holds the same encoders in plain numpy.

The vector is assembled in registers and stored as ten 64-bit words: byte by byte, the stores alone took longer than
all the rest. A bean or a head is one sortable integer, distance first, then the bytes that the vector shows.
"""

import numpy as np

from arena.encoders.distances import bean_distances, measure, near_heads, wrapped
from arena.encoders.encoder import WAIT_MAX, Encoder
from arena.encoders.orientation import MIRRORED, ORIENTATIONS, board_action, local_action, to_board, to_local
from arena.encoders.packed_bytes import byte_at, ring_distance, signed_difference, signed_steps, steps_forward
from arena.jit import njit, njit_inline
from arena.rules import (
    BEAN_COUNT,
    BEANS_MAX,
    COLUMNS,
    DIRECTION,
    DOWN,
    LEFT,
    RIGHT,
    ROWS,
    TEAM,
    TURNS,
    UP,
    first_foe,
    first_mate,
    turns_until_free,
)

# Where the numbers stand in the vector. All bytes that are not named are 0.
F_AROUND = 0  # [12] cells up to two moves from the head, row by row: turns until free, 0 = free now
F_DIRECTION = 12  # [4] own stored direction, one-hot: its opposite is the action that the game replaces by a random one
F_FOES_NEAR = 16  # [4] per action: foes' heads that could enter the same cell this turn
F_MATES_NEAR = 20  # [4] likewise for mates
F_LENGTH = 24  # own length
F_TURNS_LEFT = 25  # halved
F_LEAD = 26  # own team's length minus the foes'
F_BEANS = 28  # [5 x 4] nearest first: rows, columns, lead over the nearest foe, lead over the nearest mate
F_MATES = 48  # [2 x 5] nearest first: rows, columns, length, direction in rows, direction in columns
F_FOES = 58  # [3 x 5] likewise
F_SIDEWAYS = 78  # canonical: 1 if the board is turned by a quarter, so that 20 cells are ahead instead of 10
F_ORIENTATION = 79  # canonical: the orientation; not an input of networks
F_WIDTH = 80
F_VECTORS = (*range(F_BEANS, F_MATES, 4), *range(F_MATES, F_FOES + 15, 5))  # first byte of each (rows, columns) pair

LEAD_MAX = 15  # the longest distance on the torus is 5 + 10
MASK32 = 0xFFFFFFFF
MASK40 = 0xFFFFFFFFFF
NO_BEAN = (31 << 32) | (256 - LEAD_MAX) << 24 | (256 - LEAD_MAX) << 16
STEP_BYTES = 0x0100FF00000100FF  # two signed bytes (rows, columns) for each of the four directions
PER_ACTION = 0x000000FF000000FF  # one byte for foes, one for mates


@njit
def sort2(a, b):
    return min(a, b), max(a, b)


@njit
def sort3(a, b, c):
    a, b = sort2(a, b)
    b, c = sort2(b, c)
    a, b = sort2(a, b)
    return a, b, c


@njit
def sort5(a, b, c, d, e):
    """A sorting network: no scratch array, no jumps."""
    a, d = sort2(a, d)
    b, e = sort2(b, e)
    a, c = sort2(a, c)
    b, d = sort2(b, d)
    a, b = sort2(a, b)
    c, e = sort2(c, e)
    b, c = sort2(b, c)
    d, e = sort2(d, e)
    c, d = sort2(c, d)
    return a, b, c, d, e


@njit
def wait(match, row, column, orientation, rows, columns):
    """Turns, capped, until the cell at local offset (rows, columns) from the head is free; 0 if it is free now."""
    rows, columns = to_board(orientation, rows, columns)
    row = wrapped(row + rows, ROWS) if rows != 0 else row
    column = wrapped(column + columns, COLUMNS) if columns != 0 else column
    cell = (row * COLUMNS + column) & 255  # the & shows the compiler that no index is negative
    return max(0, min(WAIT_MAX, turns_until_free(match, cell)))


@njit_inline
def surroundings(match, row, column, orientation):
    """The twelve cells up to two moves away: eight bytes and four."""
    first = wait(match, row, column, orientation, -2, 0)
    first |= wait(match, row, column, orientation, -1, -1) << 8
    first |= wait(match, row, column, orientation, -1, 0) << 16
    first |= wait(match, row, column, orientation, -1, 1) << 24
    first |= wait(match, row, column, orientation, 0, -2) << 32
    first |= wait(match, row, column, orientation, 0, -1) << 40
    first |= wait(match, row, column, orientation, 0, 1) << 48
    first |= wait(match, row, column, orientation, 0, 2) << 56
    second = wait(match, row, column, orientation, 1, -1)
    second |= wait(match, row, column, orientation, 1, 0) << 8
    second |= wait(match, row, column, orientation, 1, 1) << 16
    second |= wait(match, row, column, orientation, 2, 0) << 24
    return first, second


@njit
def signed(byte):
    return (byte ^ 128) - 128


@njit
def local_vector(orientation, rows, columns, i):
    """Local rows and columns to thing i of packed signed vectors: two bytes."""
    ahead, aside = to_local(orientation, signed(byte_at(rows, i)), signed(byte_at(columns, i)))
    return ahead & 255 | (aside & 255) << 8


@njit
def local_step(orientation, direction):
    """The local step of a direction: two signed bytes."""
    return STEP_BYTES >> 16 * local_action(orientation, direction) & 0xFFFF


@njit
def local_steps(orientation):
    """The local steps of all four directions."""
    up, down = local_step(orientation, UP), local_step(orientation, DOWN)
    left, right = local_step(orientation, LEFT), local_step(orientation, RIGHT)
    return up | down << 16 | left << 32 | right << 48


@njit
def bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, i):
    """Bean i as a sortable integer: distance, then the four bytes that the vector shows."""
    leads = byte_at(lead_foe, i) << 16 | byte_at(lead_mate, i) << 24
    return byte_at(own, i) << 32 | local_vector(orientation, rows, columns, i) | leads


@njit
def head_entry(match, orientation, steps, lengths, far, rows, columns, i):
    """Snake i as a sortable integer: distance, then the five bytes that the vector shows."""
    step = (steps >> 16 * int(match[DIRECTION + i])) & 0xFFFF
    return byte_at(far, i) << 40 | local_vector(orientation, rows, columns, i) | byte_at(lengths, i) << 16 | step << 24


@njit
def near_action(orientation, near, action):
    """The two bytes of near_heads for a local action."""
    return near >> 8 * board_action(orientation, action) & PER_ACTION


@njit
def local_near(orientation, near):
    """near_heads in the order of local actions."""
    ahead, behind = near_action(orientation, near, UP), near_action(orientation, near, DOWN)
    left, right = near_action(orientation, near, LEFT), near_action(orientation, near, RIGHT)
    return ahead | behind << 8 | left << 16 | right << 24


@njit_inline
def bean_vectors(common, snake):
    """For each bean, packed: own distance, rows and columns to it (signed), lead over the nearest foe and mate."""
    own, mate, foe = bean_distances(common, snake)
    rows = signed_steps(steps_forward(common.bean_rows, byte_at(common.head_rows, snake), ROWS), ROWS)
    columns = signed_steps(steps_forward(common.bean_columns, byte_at(common.head_columns, snake), COLUMNS), COLUMNS)
    return own, rows, columns, signed_difference(foe, own), signed_difference(mate, own)


@njit_inline
def canonical_orientation(match, snake, common):
    """The orientation in which the snake looks up and its nearest bean is not on the left."""
    orientation = int(match[DIRECTION + snake])
    own, rows, columns, lead_foe, lead_mate = bean_vectors(common, snake)
    nearest = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 0)
    for i in range(1, BEANS_MAX):
        nearest = min(nearest, bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, i))
    on_the_left = int(nearest >> 15 & 1 == 1 and int(match[BEAN_COUNT]) > 0)
    return orientation + MIRRORED * on_the_left


@njit_inline
def vector_words(match, snake, common, orientation):
    """What one snake sees in an orientation: ten 64-bit words."""
    row = byte_at(common.head_rows, snake)
    column = byte_at(common.head_columns, snake)
    team = first_mate(snake)
    foes = first_foe(snake)
    mate0 = team + (snake + 1) % TEAM
    mate1 = team + (snake + 2) % TEAM

    rows = steps_forward(common.head_rows, row, ROWS)
    columns = steps_forward(common.head_columns, column, COLUMNS)
    far = ring_distance(rows, ROWS) + ring_distance(columns, COLUMNS)
    near = near_heads(rows, columns, far, snake)
    rows = signed_steps(rows, ROWS)
    columns = signed_steps(columns, COLUMNS)
    steps = local_steps(orientation)
    m0, m1 = sort2(
        head_entry(match, orientation, steps, common.lengths, far, rows, columns, mate0),
        head_entry(match, orientation, steps, common.lengths, far, rows, columns, mate1),
    )
    f0, f1, f2 = sort3(
        head_entry(match, orientation, steps, common.lengths, far, rows, columns, foes),
        head_entry(match, orientation, steps, common.lengths, far, rows, columns, foes + 1),
        head_entry(match, orientation, steps, common.lengths, far, rows, columns, foes + 2),
    )

    own, rows, columns, lead_foe, lead_mate = bean_vectors(common, snake)
    b0 = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 0)
    b1 = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 1)
    b2 = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 2)
    b3 = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 3)
    b4 = bean_entry(orientation, own, rows, columns, lead_foe, lead_mate, 4)
    count = int(match[BEAN_COUNT])
    if count < BEANS_MAX:  # only on a full board
        b0 = b0 if count > 0 else NO_BEAN
        b1 = b1 if count > 1 else NO_BEAN
        b2 = b2 if count > 2 else NO_BEAN
        b3 = b3 if count > 3 else NO_BEAN
        b4 = NO_BEAN
    b0, b1, b2, b3, b4 = sort5(b0, b1, b2, b3, b4)

    length = byte_at(common.lengths, snake)
    lead = common.red_lead if snake < TEAM else -common.red_lead
    first, second = surroundings(match, row, column, orientation)

    return (
        first,
        second | 1 << 32 + 8 * local_action(orientation, int(match[DIRECTION + snake])),
        local_near(orientation, near),
        length | common.turns_left >> 1 << 8 | (lead & 255) << 16 | (b0 & MASK32) << 32,
        (b1 & MASK32) | (b2 & MASK32) << 32,
        (b3 & MASK32) | (b4 & MASK32) << 32,
        (m0 & MASK40) | (m1 & 0xFFFFFF) << 40,
        (m1 & MASK40) >> 24 | (f0 & MASK40) << 16 | (f1 & 255) << 56,
        (f1 & MASK40) >> 8 | (f2 & MASK32) << 32,
        (f2 & MASK40) >> 32 | (orientation >> 1 & 1) << 48 | orientation << 56,
    )


@njit_inline
def encode_vector(match, snake, common, orientation, out):
    """Write these words."""
    words = vector_words(match, snake, common, orientation)
    for i in range(F_WIDTH // 8):
        out[i] = words[i]


@njit_inline
def encode_features(match, snake, common, out):
    """The vector of the board as it is."""
    encode_vector(match, snake, common, 0, out)


@njit_inline
def encode_canonical(match, snake, common, out):
    """The vector of the board in the snake's canonical orientation."""
    encode_vector(match, snake, common, canonical_orientation(match, snake, common), out)


def _bounds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest and highest values, and scale."""
    low = np.zeros(F_WIDTH, np.int8)
    high = np.zeros(F_WIDTH, np.int8)
    scale = np.ones(F_WIDTH, np.float32)

    def declare(at: int, least: int, most: int, factor: float) -> None:
        low[at], high[at], scale[at] = least, most, factor

    for i in range(12):
        declare(F_AROUND + i, 0, WAIT_MAX, 1 / WAIT_MAX)
    for at in F_VECTORS:
        declare(at, -ROWS // 2, ROWS // 2 - 1, 2 / ROWS)
        declare(at + 1, -COLUMNS // 2, COLUMNS // 2 - 1, 2 / COLUMNS)
    declare(F_LENGTH, 0, 127, 0.05)
    declare(F_TURNS_LEFT, 0, TURNS // 2, 2 / TURNS)
    for i in range(4):
        declare(F_DIRECTION + i, 0, 1, 1.0)
        declare(F_FOES_NEAR + i, 0, TEAM, 1.0)
        declare(F_MATES_NEAR + i, 0, TEAM - 1, 1.0)
    for i in range(BEANS_MAX):
        declare(F_BEANS + 4 * i + 2, -LEAD_MAX, LEAD_MAX, 0.1)
        declare(F_BEANS + 4 * i + 3, -LEAD_MAX, LEAD_MAX, 0.1)
    declare(F_LEAD, -127, 127, 0.05)
    for at in range(F_MATES, F_FOES + 15, 5):
        declare(at + 2, 0, 127, 0.05)
        declare(at + 3, -1, 1, 1.0)
        declare(at + 4, -1, 1, 1.0)
    return low, high, scale


def _canonical_bounds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high, scale = _bounds()
    for at in F_VECTORS:
        low[at : at + 2], high[at : at + 2] = -COLUMNS // 2, COLUMNS // 2
    high[F_SIDEWAYS] = 1
    high[F_ORIENTATION], scale[F_ORIENTATION] = ORIENTATIONS - 1, 0.0
    return low, high, scale


FEATURES = Encoder("features", 1, np.int8, *_bounds(), encode_features, F_DIRECTION, measure, words=True)
CANONICAL = Encoder(
    "canonical", 1, np.int8, *_canonical_bounds(), encode_canonical, F_DIRECTION, measure, words=True,
    orientation_at=F_ORIENTATION,
)  # fmt: skip
