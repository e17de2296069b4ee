"""Breadth-first searches over the next moves, with bodies that leave their cells as the snakes move on.

The k-th cell of a body, counted from the tail, can be entered on the k-th move from now, if its snake neither eats nor
dies. Sets of cells are bitboards.
"""

from arena.bitboard import EMPTY, both, count, either, is_empty, neighbours, of_cell, without
from arena.jit import njit
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    HEAD,
    LENGTH,
    LINK,
    SNAKES,
    TAIL,
    TEAM,
    first_foe,
    first_mate,
)


@njit
def bodies(match):
    """All cells that hold a snake."""
    cells = EMPTY
    for snake in range(SNAKES):
        cell = int(match[TAIL + snake])
        for _ in range(int(match[LENGTH + snake])):
            cells = either(cells, of_cell(cell))
            cell = int(match[LINK + cell])
    return cells


@njit
def beans(match):
    """All cells that hold a bean."""
    cells = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        cells = either(cells, of_cell(int(match[BEANS + i])))
    return cells


@njit
def tails(match):
    """The cells of the six tails: the first cells that the snakes leave."""
    return (
        int(match[TAIL]) + 0,
        int(match[TAIL + 1]) + 0,
        int(match[TAIL + 2]) + 0,
        int(match[TAIL + 3]) + 0,
        int(match[TAIL + 4]) + 0,
        int(match[TAIL + 5]) + 0,
    )


@njit
def leaving(match, ends, move):
    """The cells that the snakes leave on the move-th move from now (from 1), if `ends` are their tails by then."""
    cells = EMPTY
    for snake in range(SNAKES):
        if move <= match[LENGTH + snake]:
            cells = either(cells, of_cell(ends[snake]))
    return cells


@njit
def further(match, ends):
    """The next cell towards the head from each of six body cells."""
    return (
        int(match[LINK + ends[0]]) + 0,
        int(match[LINK + ends[1]]) + 0,
        int(match[LINK + ends[2]]) + 0,
        int(match[LINK + ends[3]]) + 0,
        int(match[LINK + ends[4]]) + 0,
        int(match[LINK + ends[5]]) + 0,
    )


@njit
def explore(match, taken, first, goals, moves):
    """Search from the cell `first`, entered on the first move, up to `moves` moves deep.

    Returns the number of cells that can be reached, the move on which the first of `goals` is reached (0: none), and
    the last move on which a new cell is reached.
    """
    ends = further(match, tails(match))
    taken = without(taken, leaving(match, tails(match), 1))
    front = of_cell(first)
    reached = front
    goal = 0 if is_empty(both(front, goals)) else 1
    last = 1
    for move in range(2, moves + 1):
        taken = without(taken, leaving(match, ends, move))
        ends = further(match, ends)
        front = without(without(neighbours(front), taken), reached)
        if is_empty(front):
            break
        reached = either(reached, front)
        last = move
        if goal == 0 and not is_empty(both(front, goals)):
            goal = move
    return count(reached), goal, last


@njit
def heads(match, first, snake):
    """The heads of the three snakes from `first`, without that of `snake` itself."""
    cells = EMPTY
    for other in range(first, first + TEAM):
        if other != snake and match[LENGTH + other] > 0:
            cells = either(cells, of_cell(int(match[HEAD + other])))
    return cells


@njit
def contest(match, taken, snake, first, goals, moves):
    """Which side reaches which cell first, if this snake enters the cell `first` and all heads then search at once.

    Returns the number of cells that the snake reaches first, the number that its foes reach first (a cell that both
    sides reach on the same move belongs to nobody), and the worth of the beans: 240 / (moves + 1) for each bean that
    the snake's side reaches first, twice that if it is the snake itself, minus the same for beans of the foes.
    """
    ends = further(match, tails(match))
    taken = without(taken, leaving(match, tails(match), 1))
    own = of_cell(first)
    mates = without(without(neighbours(heads(match, first_mate(snake), snake)), taken), own)
    foes = without(without(neighbours(heads(match, first_foe(snake), snake)), taken), own)
    both_sides = both(mates, foes)
    claimed = either(own, either(mates, foes))
    mates = without(mates, both_sides)
    foes = without(foes, both_sides)
    own_cells = 1
    foe_cells = count(foes)
    worth = 120 * (2 * count(both(own, goals)) + count(both(mates, goals)) - count(both(foes, goals)))
    for move in range(2, moves + 1):
        taken = without(taken, leaving(match, ends, move))
        ends = further(match, ends)
        shut = either(taken, claimed)
        own = without(neighbours(own), shut)
        mates = without(without(neighbours(mates), shut), own)
        foes = without(neighbours(foes), shut)
        both_sides = both(either(own, mates), foes)
        claimed = either(claimed, either(own, either(mates, foes)))
        own = without(own, both_sides)
        mates = without(mates, both_sides)
        foes = without(foes, both_sides)
        own_cells += count(own)
        foe_cells += count(foes)
        value = 240 // (move + 1)
        worth += value * (2 * count(both(own, goals)) + count(both(mates, goals)) - count(both(foes, goals)))
    return own_cells, foe_cells, worth
