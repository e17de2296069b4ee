"""Sets of cells as five 40-bit words of two rows each: one search step over the whole torus is a few dozen operations.

Sets are tuples of integers, without scratch memory: the same code runs in a CPU loop and in registers of a GPU thread.
Word w holds row 2w in its low 20 bits and row 2w + 1 above them: cell c is bit c % 40 of word c // 40.
"""

from arena.jit import njit

WORD = 40
LOW = (1 << 20) - 1  # the lower row of a word
COLUMN0 = 1 | 1 << 20
COLUMN19 = COLUMN0 << 19
EMPTY = (0, 0, 0, 0, 0)


@njit
def of_cell(cell):
    """The set of one cell."""
    bit = 1 << cell % WORD
    word = cell // WORD
    return (
        bit if word == 0 else 0,
        bit if word == 1 else 0,
        bit if word == 2 else 0,
        bit if word == 3 else 0,
        bit if word == 4 else 0,
    )


@njit
def either(a, b):
    """The cells of a or b."""
    return a[0] | b[0], a[1] | b[1], a[2] | b[2], a[3] | b[3], a[4] | b[4]


@njit
def both(a, b):
    """The cells of a and b."""
    return a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3], a[4] & b[4]


@njit
def without(a, b):
    """The cells of a that are not in b."""
    return a[0] & ~b[0], a[1] & ~b[1], a[2] & ~b[2], a[3] & ~b[3], a[4] & ~b[4]


@njit
def is_empty(a):
    """Whether there is no cell in the set."""
    return (a[0] | a[1] | a[2] | a[3] | a[4]) == 0


@njit
def sideways(x):
    """The cells left and right of the cells in one word."""
    right = (x & ~COLUMN19) << 1 | (x & COLUMN19) >> 19
    left = (x & ~COLUMN0) >> 1 | (x & COLUMN0) << 19
    return right | left


@njit
def beside(above, word, below):
    """The neighbours, in one word, of the cells in it and in the words above and below it."""
    vertical = (word & LOW) << 20 | word >> 20 | above >> 20 | (below & LOW) << 20
    return vertical | sideways(word)


@njit
def neighbours(a):
    """All cells next to a cell of the set, around the torus."""
    return (
        beside(a[4], a[0], a[1]),
        beside(a[0], a[1], a[2]),
        beside(a[1], a[2], a[3]),
        beside(a[2], a[3], a[4]),
        beside(a[3], a[4], a[0]),
    )


@njit
def bits_in(x):
    """The number of set bits in a 40-bit word."""
    x -= (x >> 1) & 0x5555555555
    x = (x & 0x3333333333) + ((x >> 2) & 0x3333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F
    return ((x * 0x0101010101) >> 32) & 255


@njit
def count(a):
    """The number of cells in the set."""
    return bits_in(a[0]) + bits_in(a[1]) + bits_in(a[2]) + bits_in(a[3]) + bits_in(a[4])
