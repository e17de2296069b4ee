"""Sets of cells as four words of three rows each, the last of one row: a search step over the torus is a few dozen
operations.

Sets are tuples of integers, without scratch memory: the same code runs in a CPU loop and in registers of a GPU thread.
Word w holds row 3w in its low 20 bits and the next rows above them: cell c is bit c % 60 of word c // 60.
"""

from arena.jit import njit

WORD = 60
LOW = (1 << 20) - 1  # the lowest row of a word
ROWS3 = (1 << WORD) - 1
COLUMN0 = 1 | 1 << 20 | 1 << 40
COLUMN19 = COLUMN0 << 19
EMPTY = (0, 0, 0, 0)


@njit
def of_cell(cell):
    """The set of one cell; empty for a spare cell, which is not on the board."""
    bit = 1 << cell % WORD
    word = cell // WORD
    return (
        bit if word == 0 else 0,
        bit if word == 1 else 0,
        bit if word == 2 else 0,
        bit & LOW if word == 3 else 0,
    )


@njit
def either(a, b):
    """The cells of a or b."""
    return a[0] | b[0], a[1] | b[1], a[2] | b[2], a[3] | b[3]


@njit
def both(a, b):
    """The cells of a and b."""
    return a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]


@njit
def without(a, b):
    """The cells of a that are not in b."""
    return a[0] & ~b[0], a[1] & ~b[1], a[2] & ~b[2], a[3] & ~b[3]


@njit
def is_empty(a):
    """Whether there is no cell in the set."""
    return (a[0] | a[1] | a[2] | a[3]) == 0


@njit
def sideways(x):
    """The cells left and right of the cells in one word."""
    right = (x & ~COLUMN19) << 1 | (x & COLUMN19) >> 19
    left = (x & ~COLUMN0) >> 1 | (x & COLUMN0) << 19
    return right | left


@njit
def beside(above, word, below):
    """The neighbours, in a word of three rows, of the cells in it and in the rows above and below it."""
    return word << 20 & ROWS3 | word >> 20 | above | below << 40 | sideways(word)


@njit
def neighbours(a):
    """All cells next to a cell of the set, around the torus."""
    return (
        beside(a[3], a[0], a[1] & LOW),
        beside(a[0] >> 40, a[1], a[2] & LOW),
        beside(a[1] >> 40, a[2], a[3]),
        a[2] >> 40 | a[0] & LOW | sideways(a[3]),
    )


@njit
def bits_in(x):
    """The number of set bits in a word."""
    x -= (x >> 1) & 0x5555555555555555
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((x * 0x0101010101010101) >> 56) & 255


@njit
def count(a):
    """The number of cells in the set."""
    return bits_in(a[0]) + bits_in(a[1]) + bits_in(a[2]) + bits_in(a[3])
