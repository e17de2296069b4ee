"""Where things are around the torus: what all seats of a match share, worked out once, and what each makes of it.

Used by the compact encoder. Numbers of six snakes or five beans stand in lanes (lanes.py).
"""

from typing import NamedTuple

from arena.encoders.packed_bytes import at_least, distances, equal, lane, pack, smaller
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
    team_length,
)

NOWHERE = 64  # more than any distance: a bean that is not there
ALL_NOWHERE = 0x4040404040


class Shared(NamedTuple):
    """What all seats of a match share. Numbers of six snakes or five beans stand in lanes of one integer."""

    head_rows: int
    head_columns: int
    bean_rows: int
    bean_columns: int
    lengths: int  # up to 127
    to_beans: tuple[int, ...]  # per snake its distances to the beans; NOWHERE and more for one that is not there
    red_lead: int  # red's length minus blue's, -127 to 127
    turns_left: int


@njit
def measure(match):
    """Work out what all seats of a match share."""
    head_rows, head_columns = pack(match, HEAD, SNAKES)
    bean_rows, bean_columns = pack(match, BEANS, BEANS_MAX)
    lengths = 0
    for snake in range(SNAKES):
        lengths |= min(127, int(match[LENGTH + snake])) << 8 * snake
    shift = 8 * int(match[BEAN_COUNT])
    missing = ALL_NOWHERE >> shift << shift
    d0 = distances(bean_rows, bean_columns, head_rows, head_columns, 0) + missing
    d1 = distances(bean_rows, bean_columns, head_rows, head_columns, 1) + missing
    d2 = distances(bean_rows, bean_columns, head_rows, head_columns, 2) + missing
    d3 = distances(bean_rows, bean_columns, head_rows, head_columns, 3) + missing
    d4 = distances(bean_rows, bean_columns, head_rows, head_columns, 4) + missing
    d5 = distances(bean_rows, bean_columns, head_rows, head_columns, 5) + missing
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
def bean_distances(shared, snake):
    """Moves to each bean, in lanes: for the snake itself, the nearest mate and the nearest foe."""
    d0, d1, d2, d3, d4, d5 = shared.to_beans
    if snake >= TEAM:
        d0, d1, d2, d3, d4, d5 = d3, d4, d5, d0, d1, d2
    seat = snake % TEAM
    own, mate = d0, smaller(d1, d2)
    if seat == 1:
        own, mate = d1, smaller(d0, d2)
    if seat == 2:
        own, mate = d2, smaller(d0, d1)
    return own, mate, smaller(d3, smaller(d4, d5))


@njit
def near_bytes(flags, foes, mate0, mate1):
    """How many of the flagged heads are foes and how many mates: a byte each, four bytes apart."""
    foe_flags = flags >> 8 * foes
    return (foe_flags + (foe_flags >> 8) + (foe_flags >> 16)) & 3 | (lane(flags, mate0) + lane(flags, mate1)) << 32


@njit_inline
def near_heads(rows, columns, far, snake):
    """Per move how many heads could enter the same cell on this turn: four bytes for foes, then four for mates.

    Takes the six heads as steps forward from the own one, in lanes, and their distances.
    """
    two = equal(far, 2)
    if two == 0:
        return 0
    # Whoever is two moves away can meet us above if it is higher up; likewise on the other sides.
    team = snake - snake % TEAM
    foes = TEAM - team
    mate0 = team + (snake + 1) % TEAM
    mate1 = team + (snake + 2) % TEAM
    above = at_least(rows, ROWS // 2)
    leftwards = at_least(columns, COLUMNS // 2)
    near = near_bytes(two & above, foes, mate0, mate1)
    near |= near_bytes(two & ~above & at_least(rows, 1), foes, mate0, mate1) << 8
    near |= near_bytes(two & leftwards, foes, mate0, mate1) << 16
    return near | near_bytes(two & ~leftwards & at_least(columns, 1), foes, mate0, mate1) << 24
