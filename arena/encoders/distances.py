"""Distances around the torus that the compact encoders show: from every head to every bean and to every other head.

What all seats of a match share is measured once. Numbers of six snakes or five beans are packed (packed_bytes.py).
"""

from typing import NamedTuple

from arena.encoders.packed_bytes import at_least, byte_at, equal, minimum, pack_cells, torus_distances
from arena.jit import njit, njit_inline
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    COLUMNS,
    HEAD,
    LENGTH,
    ROWS,
    SNAKES,
    TEAM,
    TURN,
    TURNS,
    first_foe,
    first_mate,
    team_length,
)

ALL_MISSING = 0x4040404040  # five bytes of 64, above any distance: no bean is there


class Shared(NamedTuple):
    """Measurements that all seats of a match share; per-snake and per-bean numbers are packed bytes."""

    head_rows: int
    head_columns: int
    bean_rows: int
    bean_columns: int
    lengths: int  # up to 127
    to_beans: tuple[int, ...]  # per snake: distances to the beans; 64 or more for a missing bean
    red_lead: int  # red's length minus blue's, -127 to 127
    turns_left: int


@njit
def measure(match):
    """Measure what all seats of a match share."""
    head_rows, head_columns = pack_cells(match, HEAD, SNAKES)
    bean_rows, bean_columns = pack_cells(match, BEANS, BEANS_MAX)
    lengths = 0
    for snake in range(SNAKES):
        lengths |= min(127, int(match[LENGTH + snake])) << 8 * snake
    shift = 8 * int(match[BEAN_COUNT])
    missing = ALL_MISSING >> shift << shift
    d0 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 0) + missing
    d1 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 1) + missing
    d2 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 2) + missing
    d3 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 3) + missing
    d4 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 4) + missing
    d5 = torus_distances(bean_rows, bean_columns, head_rows, head_columns, 5) + missing
    return Shared(
        head_rows,
        head_columns,
        bean_rows,
        bean_columns,
        lengths,
        (d0, d1, d2, d3, d4, d5),
        max(-127, min(127, team_length(match, 0) - team_length(match, TEAM))),
        TURNS - int(match[TURN]),
    )


@njit
def wrapped(x, size):
    """A coordinate at most one board off, brought back onto it."""
    x += size if x < 0 else 0
    return x - size if x >= size else x


@njit_inline
def bean_distances(common, snake):
    """Packed distances to each bean: of the snake itself, of the nearest mate and of the nearest foe."""
    d0, d1, d2, d3, d4, d5 = common.to_beans
    if snake >= TEAM:
        d0, d1, d2, d3, d4, d5 = d3, d4, d5, d0, d1, d2
    seat = snake % TEAM
    own, mate = d0, minimum(d1, d2)
    if seat == 1:
        own, mate = d1, minimum(d0, d2)
    if seat == 2:
        own, mate = d2, minimum(d0, d1)
    return own, mate, minimum(d3, minimum(d4, d5))


@njit
def near_bytes(flags, foes, mate0, mate1):
    """Numbers of foes and of mates among the flagged heads: a byte each, four bytes apart."""
    foe_flags = flags >> 8 * foes
    return (foe_flags + (foe_flags >> 8) + (foe_flags >> 16)) & 3 | (
        byte_at(flags, mate0) + byte_at(flags, mate1)
    ) << 32


@njit_inline
def near_heads(rows, columns, far, snake):
    """Per move the number of heads that can enter the same cell on this turn: four bytes for foes, four for mates.

    Takes the six heads as packed steps forward from the own head, and their packed distances.
    """
    two = equal(far, 2)
    if two == 0:
        return 0
    # A head two moves away can enter the cell above if it is higher up; likewise on the other sides.
    team = first_mate(snake)
    foes = first_foe(snake)
    mate0 = team + (snake + 1) % TEAM
    mate1 = team + (snake + 2) % TEAM
    above = at_least(rows, ROWS // 2)
    leftwards = at_least(columns, COLUMNS // 2)
    near = near_bytes(two & above, foes, mate0, mate1)
    near |= near_bytes(two & ~above & at_least(rows, 1), foes, mate0, mate1) << 8
    near |= near_bytes(two & leftwards, foes, mate0, mate1) << 16
    return near | near_bytes(two & ~leftwards & at_least(columns, 1), foes, mate0, mate1) << 24
