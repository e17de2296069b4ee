"""Six small numbers in the bytes of one integer, worked on all at once.

The encoders measure every head and bean from every head: 66 distances around the torus per match and turn. One by one
they cost more than the turn itself; six at a time they are cheap, on the CPU and on the GPU alike.
A lane holds 0..127; its top bit is room for borrows, and the sum of any two lanes used here stays below 256.
"""

from arena.jit import njit
from arena.rules import COLUMNS, ROWS

ONES = 0x010101010101
TOPS = ONES << 7


@njit
def lane(lanes, i):
    """The number in lane i."""
    return (lanes >> (8 * i)) & 255


@njit
def pack(match, at, count):
    """Rows and columns of the `count` cells that stand in the match from offset `at`."""
    rows = 0
    columns = 0
    for i in range(count):
        cell = int(match[at + i])
        row = cell // COLUMNS
        rows |= row << 8 * i
        columns |= (cell - COLUMNS * row) << 8 * i
    return rows, columns


@njit
def at_least(lanes, bound):
    """1 in each lane whose number is at least `bound`."""
    return ((lanes + (128 - bound) * ONES) & TOPS) >> 7


@njit
def equal(lanes, number):
    """1 in each lane that holds `number`."""
    return at_least(lanes ^ number * ONES, 1) ^ ONES


@njit
def less(a, b):
    """1 in each lane where a is smaller than b."""
    return ((((a | TOPS) - b) & TOPS) ^ TOPS) >> 7


@njit
def forward(lanes, origin, size):
    """Steps forward around a ring of `size` from the number `origin` to each lane: 0..size-1."""
    steps = lanes + (size - origin) * ONES
    return steps - at_least(steps, size) * size


@njit
def smaller(a, b):
    """Lane by lane the smaller of a and b."""
    keep_b = less(b, a) * 255
    return (b & keep_b) | (a & ~keep_b)


@njit
def around(steps, size):
    """Distance the short way round for each lane of steps forward."""
    return smaller(steps, size * ONES - steps)


@njit
def short_way(steps, size):
    """Steps forward as signed bytes, the short way round: -size/2 .. size/2 - 1."""
    return steps + at_least(steps, size // 2) * (256 - size)


@njit
def difference(a, b):
    """a - b as signed bytes, for lanes of at most 63."""
    return ((a | TOPS) - b) ^ TOPS


@njit
def distances(rows, columns, from_rows, from_columns, i):
    """Moves on an empty board from the cell in lane i of `from_…` to each lane's cell."""
    return around(forward(rows, lane(from_rows, i), ROWS), ROWS) + around(
        forward(columns, lane(from_columns, i), COLUMNS), COLUMNS
    )
