"""What a scripted snake sees: which beans are how far from whom, and the cells around its head.

A decision is random to the processor: a jump that depends on it is guessed wrong every third time, which costs as much
as forty additions. So nothing here jumps: small tables answer, and all beans, or all four moves, are weighed at once in
the lanes of one integer. With that a turn of `level3` or `level4` takes 28 % less time.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from arena.jit import njit, njit_inline
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    BOARD,
    CELLS,
    COLUMNS,
    HEAD,
    ROWS,
    SNAKE,
    TAIL,
    TEAM,
    turns_until_free,
)

# --- the way from one cell to another ---------------------------------------------------------------------------------

# The spot of a cell is row * 40 + column: the difference of two spots tells how many rows and columns are between them.
PITCH = 2 * COLUMNS
DIFFERENCES = 1024  # a power of two, so that negative differences go to the end of a table without a question
STEP = 128  # what one more move adds to a way: seven bits below it hold the bean's number and the moves towards it


def _spots() -> np.ndarray:
    """The spot of each cell; a byte that is no cell (where a snake has no body) gets that of cell 0."""
    cells = np.arange(256)
    return np.where(cells < CELLS, cells // COLUMNS * PITCH + cells % COLUMNS, 0).astype(np.int16)


def _ways() -> np.ndarray:
    """For each difference of two spots the way around the torus: STEP * distance + moves that bring nearer (bits)."""
    table = np.zeros(DIFFERENCES, np.uint16)
    for rows, columns in product(range(1 - ROWS, ROWS), range(1 - COLUMNS, COLUMNS)):
        up, down, left, right = -rows % ROWS, rows % ROWS, -columns % COLUMNS, columns % COLUMNS
        nearer = (0 < up <= down, 0 < down <= up, 0 < left <= right, 0 < right <= left)
        moves = sum(bit << move for move, bit in enumerate(nearer))
        table[rows * PITCH + columns] = STEP * (min(up, down) + min(left, right)) + moves
    return table


SPOTS = _spots()
WAYS = _ways()


def _meetings() -> np.ndarray:
    """For each difference of two heads' spots the moves to a cell that both can enter: 1 in two bits for each move."""
    moves = np.where(WAYS // STEP == 2, WAYS % STEP, 0)  # only two moves apart can they meet
    return sum((moves >> move & 1) << 2 * move for move in range(4)).astype(np.uint8)


MEETINGS = _meetings()

# Numba leaves int() of a byte a byte, to which shifts and differences would be cut; with + 0 it is a whole integer.


@njit
def spot(match, at):
    """The spot of the cell that stands in the match at this offset."""
    return int(SPOTS[int(match[at])]) + 0


@njit
def way(start, end):
    """The way from one spot to another: STEP * distance + the moves that bring nearer, as bits."""
    return int(WAYS[(end - start) & DIFFERENCES - 1]) + 0


@njit
def meeting(start, end):
    """1 in two bits for each move from one spot to a cell that a head on the other spot can enter too."""
    return int(MEETINGS[(end - start) & DIFFERENCES - 1]) + 0


# --- all beans at once: twelve bits for each of the five --------------------------------------------------------------

BEAN_BITS = 12
EACH_BEAN = 0x001001001001001
BORROW = EACH_BEAN << BEAN_BITS - 1  # a bit that no way needs
NUMBERS = sum(i << BEAN_BITS * i + 4 for i in range(BEANS_MAX))  # of two beans equally far the first is nearer
FAR = 31 * STEP * EACH_BEAN  # further than any bean with all that is added to its way


@njit_inline
def beans_of(match):
    """The spots of the five beans; all bits of those that are there; and what is added to ways to compare them."""
    b0, b1, b2 = spot(match, BEANS), spot(match, BEANS + 1), spot(match, BEANS + 2)
    bits = BEAN_BITS * int(match[BEAN_COUNT])
    return (b0, b1, b2, spot(match, BEANS + 3), spot(match, BEANS + 4)), (1 << bits) - 1, FAR >> bits << bits | NUMBERS


@njit_inline
def ways_to(beans, head, present):
    """The ways from a head to the five beans; 0 for one that is not there."""
    b0, b1, b2, b3, b4 = beans
    ways = way(head, b0) | way(head, b1) << 12 | way(head, b2) << 24 | way(head, b3) << 36 | way(head, b4) << 48
    return ways & present


@njit
def nearer(a, b):
    """1 for each bean whose distance by the ways in a is smaller than by those in b."""
    return (~((a | (STEP - 1) * EACH_BEAN | BORROW) - b) & BORROW) >> BEAN_BITS - 1


@njit
def shared_out(own, mate0, mate1):
    """The ways, where a bean that a mate is nearer to counts as eight moves further off."""
    return own + 8 * STEP * (nearer(mate0, own) | nearer(mate1, own))


@njit
def contested(own, foe0, foe1, foe2):
    """What to add to the ways: four moves for each bean that a foe is nearer to."""
    return 4 * STEP * (nearer(foe0, own) | nearer(foe1, own) | nearer(foe2, own))


@njit
def left_to_others(own, mate0, mate1, foe0, foe1, foe2):
    """A bit for each bean that another snake is nearer to."""
    some = nearer(mate0, own) | nearer(mate1, own) | nearer(foe0, own) | nearer(foe1, own) | nearer(foe2, own)
    return (some | some >> 11 | some >> 22 | some >> 33 | some >> 44) & 31


@njit
def towards(ways):
    """The moves towards the bean that is the least far; none if there are no beans."""
    best = min(ways & 4095, ways >> 12 & 4095)
    best = min(best, ways >> 24 & 4095)
    best = min(best, min(ways >> 36 & 4095, ways >> 48))
    return best & 15


# --- all snakes at once -----------------------------------------------------------------------------------------------


class Outlook(NamedTuple):
    """What all seats of a match share."""

    lost: int  # a bit for each bean that another snake is nearer to, five for each snake
    # Moves as bits, four for each snake:
    nearest: int  # towards the nearest bean
    fair: int  # towards the nearest one, mates considered
    winnable: int  # towards the nearest one, mates and foes considered
    # How many heads can enter the same cell, two bits for each move, eight for each snake:
    red: int
    blue: int
    may_eat: int  # bit SNAKE + s for each snake with a bean beside its head


NOTHING = Outlook(0, 0, 0, 0, 0, 0, 0)


@njit
def of_snake(fours, snake):
    """The four bits of one snake."""
    return fours >> 4 * snake & 15


@njit
def six(bits, a, b, c, d, e, f):
    """So many bits for each of the six snakes."""
    return a | b << bits | c << 2 * bits | d << 3 * bits | e << 4 * bits | f << 5 * bits


@njit
def meetings(s, h0, h1, h2):
    """How many of three heads can enter the same cell, for each move from the spot s."""
    return meeting(s, h0) + meeting(s, h1) + meeting(s, h2)


@njit_inline
def meetings_of_all(heads, h0, h1, h2):
    """The same for each move of all six heads, eight bits a snake."""
    a, b, c, d, e, f = heads
    return six(
        8,
        meetings(a, h0, h1, h2),
        meetings(b, h0, h1, h2),
        meetings(c, h0, h1, h2),
        meetings(d, h0, h1, h2),
        meetings(e, h0, h1, h2),
        meetings(f, h0, h1, h2),
    )


@njit_inline
def towards_of_all(ways, last):
    """For each snake the moves towards the bean that is the least far for it; `last` is added to all ways."""
    a, b, c, d, e, f = ways
    return six(
        4,
        towards(a | last),
        towards(b | last),
        towards(c | last),
        towards(d | last),
        towards(e | last),
        towards(f | last),
    )


@njit
def beside_bean(ways, present, snake):
    """Bit SNAKE + snake if a bean is one move away."""
    return int(nearer(ways, 2 * STEP * EACH_BEAN) & present != 0) << SNAKE + snake


@njit_inline
def outlook(match):
    """Work out what all seats of a match share. It is inlined, so that an opponent pays only for what it reads."""
    r0, r1, r2 = spot(match, HEAD), spot(match, HEAD + 1), spot(match, HEAD + 2)
    b0, b1, b2 = spot(match, HEAD + 3), spot(match, HEAD + 4), spot(match, HEAD + 5)
    heads = (r0, r1, r2, b0, b1, b2)
    red, blue = meetings_of_all(heads, r0, r1, r2), meetings_of_all(heads, b0, b1, b2)
    beans, present, last = beans_of(match)
    r0, r1, r2 = ways_to(beans, r0, present), ways_to(beans, r1, present), ways_to(beans, r2, present)
    b0, b1, b2 = ways_to(beans, b0, present), ways_to(beans, b1, present), ways_to(beans, b2, present)
    nearest = towards_of_all((r0, r1, r2, b0, b1, b2), last)
    f0, f1, f2 = shared_out(r0, r1, r2), shared_out(r1, r0, r2), shared_out(r2, r0, r1)
    f3, f4, f5 = shared_out(b0, b1, b2), shared_out(b1, b0, b2), shared_out(b2, b0, b1)
    fair = towards_of_all((f0, f1, f2, f3, f4, f5), last)
    c0, c1, c2 = contested(r0, b0, b1, b2), contested(r1, b0, b1, b2), contested(r2, b0, b1, b2)
    c3, c4, c5 = contested(b0, r0, r1, r2), contested(b1, r0, r1, r2), contested(b2, r0, r1, r2)
    winnable = towards_of_all((f0 + c0, f1 + c1, f2 + c2, f3 + c3, f4 + c4, f5 + c5), last)
    l0, l1 = left_to_others(r0, r1, r2, b0, b1, b2), left_to_others(r1, r0, r2, b0, b1, b2)
    l2, l3 = left_to_others(r2, r0, r1, b0, b1, b2), left_to_others(b0, b1, b2, r0, r1, r2)
    l4, l5 = left_to_others(b1, b0, b2, r0, r1, r2), left_to_others(b2, b0, b1, r0, r1, r2)
    may_eat = beside_bean(r0, present, 0) | beside_bean(r1, present, 1) | beside_bean(r2, present, 2)
    may_eat |= beside_bean(b0, present, 3) | beside_bean(b1, present, 4) | beside_bean(b2, present, 5)
    return Outlook(six(BEANS_MAX, l0, l1, l2, l3, l4, l5), nearest, fair, winnable, red, blue, may_eat)


@njit_inline
def outlook_of(match, snake):
    """What this one seat needs of it: a GPU has a thread for each seat, which would throw the other five away."""
    team = snake // TEAM * TEAM
    mate0, mate1 = team + (snake + 1) % TEAM, team + (snake + 2) % TEAM
    foe0 = TEAM - team
    foe1, foe2 = foe0 + 1, foe0 + 2
    own, m0, m1 = spot(match, HEAD + snake), spot(match, HEAD + mate0), spot(match, HEAD + mate1)
    f0, f1, f2 = spot(match, HEAD + foe0), spot(match, HEAD + foe1), spot(match, HEAD + foe2)
    mates, foes = meetings(own, own, m0, m1), meetings(own, f0, f1, f2)
    red, blue = (mates, foes) if team == 0 else (foes, mates)
    beans, present, last = beans_of(match)
    own, m0, m1 = ways_to(beans, own, present), ways_to(beans, m0, present), ways_to(beans, m1, present)
    f0, f1, f2 = ways_to(beans, f0, present), ways_to(beans, f1, present), ways_to(beans, f2, present)
    fair = shared_out(own, m0, m1)
    winnable = fair + contested(own, f0, f1, f2)
    may_eat = beside_bean(own, present, snake) | beside_bean(m0, present, mate0) | beside_bean(m1, present, mate1)
    may_eat |= beside_bean(f0, present, foe0) | beside_bean(f1, present, foe1) | beside_bean(f2, present, foe2)
    return Outlook(
        left_to_others(own, m0, m1, f0, f1, f2) << BEANS_MAX * snake,
        towards(own | last) << 4 * snake,
        towards(fair | last) << 4 * snake,
        towards(winnable | last) << 4 * snake,
        red << 8 * snake,
        blue << 8 * snake,
        may_eat,
    )


@njit_inline
def near_heads(shared, snake):
    """How many mates' heads and how many foes' can enter the same cell: two bits for each move."""
    red, blue = shared.red >> 8 * snake & 255, shared.blue >> 8 * snake & 255
    return (red, blue) if snake < TEAM else (blue, red)


# --- all moves at once: sixteen bits for each of the four -------------------------------------------------------------

MOVE_BITS = 16
EACH_MOVE = 0x0001000100010001
UP_ONE, DOWN_ONE, LEFT_ONE, RIGHT_ONE = 1, 1 << 16, 1 << 32, 1 << 48
# The places around a cell: 0-3 are the cells of the moves, then those straight beyond them; and the corners.
UP_UP, DOWN_DOWN, LEFT_LEFT, RIGHT_RIGHT = 4, 5, 6, 7
UP_LEFT, UP_RIGHT, DOWN_LEFT, DOWN_RIGHT = 0, 1, 2, 3
AHEAD = ((-1, 0), (1, 0), (0, -1), (0, 1), (-2, 0), (2, 0), (0, -2), (0, 2))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def _around(steps: tuple[tuple[int, int], ...]) -> np.ndarray:
    """For each cell those so many rows and columns away, a byte for each; cells 0 for a byte that is no cell."""
    table = np.zeros((256, 8), np.uint8)
    for cell, (place, (down, right)) in product(range(CELLS), enumerate(steps)):
        row, column = divmod(cell, COLUMNS)
        table[cell, place] = (row + down) % ROWS * COLUMNS + (column + right) % COLUMNS
    return table.view("<i8").astype(np.int64).reshape(-1)


AHEAD_OF = _around(AHEAD)
CORNERS_OF = _around(CORNERS)


@njit
def ahead(cell):
    """The cells of the four moves from a cell and those straight beyond them, eight bits each."""
    return int(AHEAD_OF[cell])


@njit
def corners(cell):
    """The cells one row and one column away from a cell, eight bits each."""
    return int(CORNERS_OF[cell])


@njit
def four(up, down, left, right):
    """A number for each move."""
    return up | down << 16 | left << 32 | right << 48


@njit
def each(heads):
    """How many heads can enter the same cell, a number for each move, from two bits for each."""
    return heads * (1 | 1 << 14 | 1 << 28 | 1 << 42) & 3 * EACH_MOVE


@njit
def there(match, cells, place):
    """What the board says on one of these cells."""
    return int(match[BOARD + (cells >> 8 * place & 255)]) + 0


@njit
def snakes(marks):
    """1 for each move whose mark is that of a snake: neither FREE, 0, nor BEAN, 7."""
    marks += EACH_MOVE
    return (marks >> 1 | marks >> 2) & EACH_MOVE


@njit
def taken(match, cells):
    """1 for each move to a cell that a snake is on."""
    return snakes(four(there(match, cells, 0), there(match, cells, 1), there(match, cells, 2), there(match, cells, 3)))


@njit
def is_tail(match, cells, place):
    """1 if a tail is on one of these cells, and a snake at all."""
    return int(match[TAIL + there(match, cells, place) - SNAKE] == cells >> 8 * place & 255)


@njit
def blocked_or_tail(match, cells):
    """1 for each move to a cell that a snake stays on, and 1 for each to a tail: that will be gone, unless it eats."""
    tails = four(is_tail(match, cells, 0), is_tail(match, cells, 1), is_tail(match, cells, 2), is_tail(match, cells, 3))
    snakes_there = taken(match, cells)
    return snakes_there & ~tails, snakes_there & tails


@njit
def owners_in(match, cells, some):
    """1 for each move to a cell whose snake is one of some, given as bits SNAKE + snake."""
    return four(
        some >> there(match, cells, 0) & 1,
        some >> there(match, cells, 1) & 1,
        some >> there(match, cells, 2) & 1,
        some >> there(match, cells, 3) & 1,
    )


@njit
def narrows(shut):
    """1 for each move to a cell with no way on, and 1 for each with only one, by how many of the three are shut."""
    two_or_three = shut >> 1 & EACH_MOVE
    return two_or_three & shut, two_or_three & ~shut


@njit
def stays(match, cells, place):
    """1 if the snake on one of these cells will not have left it in two turns."""
    return int(turns_until_free(match, cells >> 8 * place & 255) > 2)


@njit
def shut_in_time(match, cells, beside):
    """For each move, how many of the three ways on from its cell a snake will still be on when it is their turn.

    Takes what is ahead of the head and beside it, at the corners.
    """
    shut = stays(match, cells, UP_UP) * UP_ONE + stays(match, cells, DOWN_DOWN) * DOWN_ONE
    shut += stays(match, cells, LEFT_LEFT) * LEFT_ONE + stays(match, cells, RIGHT_RIGHT) * RIGHT_ONE
    shut += stays(match, beside, UP_LEFT) * (UP_ONE + LEFT_ONE) + stays(match, beside, UP_RIGHT) * (UP_ONE + RIGHT_ONE)
    shut += stays(match, beside, DOWN_LEFT) * (DOWN_ONE + LEFT_ONE)
    return shut + stays(match, beside, DOWN_RIGHT) * (DOWN_ONE + RIGHT_ONE)
