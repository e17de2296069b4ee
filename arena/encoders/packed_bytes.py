"""Small numbers packed into the bytes of one integer, with arithmetic on all of them at once (SWAR).

The encoders measure every head and bean from every head: 66 distances around the torus per match and turn. One by one
they cost more than the turn itself; six snakes or five beans at a time they are cheap, on the CPU and on a GPU.
A byte holds 0..127; its top bit is room for borrows, and the sum of any two bytes used here stays below 256.
"""

from arena.jit import njit
from arena.rules import COLUMNS, ROWS

ONES = 0x010101010101
TOPS = ONES << 7


@njit
def byte_at(packed, i):
    """The number in byte i."""
    return (packed >> (8 * i)) & 255


@njit
def pack_cells(match, offset, count):
    """Rows and columns, packed, of the `count` cells that stand in the match from `offset` on."""
    rows = 0
    columns = 0
    for i in range(count):
        cell = int(match[offset + i])
        row = cell // COLUMNS
        rows |= row << 8 * i
        columns |= (cell - COLUMNS * row) << 8 * i
    return rows, columns


@njit
def at_least(packed, bound):
    """1 in each byte whose number is at least `bound`."""
    return ((packed + (128 - bound) * ONES) & TOPS) >> 7


@njit
def equal(packed, number):
    """1 in each byte that holds `number`."""
    return at_least(packed ^ number * ONES, 1) ^ ONES


@njit
def less(a, b):
    """1 in each byte where a is smaller than b."""
    return ((((a | TOPS) - b) & TOPS) ^ TOPS) >> 7


@njit
def minimum(a, b):
    """Byte by byte the smaller of a and b."""
    keep_b = less(b, a) * 255
    return (b & keep_b) | (a & ~keep_b)


@njit
def steps_forward(packed, origin, size):
    """Steps forward around a ring of `size` cells from `origin` to each number: 0..size-1."""
    steps = packed + (size - origin) * ONES
    return steps - at_least(steps, size) * size


@njit
def ring_distance(steps, size):
    """Distance the short way round for steps forward."""
    return minimum(steps, size * ONES - steps)


@njit
def signed_steps(steps, size):
    """Steps forward as signed bytes, the short way round: -size/2 .. size/2 - 1."""
    return steps + at_least(steps, size // 2) * (256 - size)


@njit
def signed_difference(a, b):
    """a - b as signed bytes, for numbers up to 63."""
    return ((a | TOPS) - b) ^ TOPS


@njit
def torus_distances(rows, columns, from_rows, from_columns, i):
    """Moves on an empty board from cell i of `from_rows`, `from_columns` to each cell of `rows`, `columns`."""
    return ring_distance(steps_forward(rows, byte_at(from_rows, i), ROWS), ROWS) + ring_distance(
        steps_forward(columns, byte_at(from_columns, i), COLUMNS), COLUMNS
    )
