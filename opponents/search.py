"""Searches over the board that will be: breadth-first, with bodies that vanish as their snakes move on.

A body's k-th cell from the tail can be entered on the k-th move from now, if its snake neither eats nor dies.
"""

from arena.jit import njit
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BOARD,
    HEAD,
    LENGTH,
    LINK,
    SNAKE,
    SNAKES,
    TAIL,
    TEAM,
    neighbour,
)
from opponents.bitboard import EMPTY, both, count, either, is_empty, neighbours, of_cell, without


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
    """The six tails: where the vanishing begins."""
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
    """The cells that are given up on the move-th move from now, from 1."""
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
    """Walk from the cell `first`, entered on the first move, up to so many moves.

    Returns how many cells can be reached, and on which move first one of `goals` (0 = none).
    """
    ends = further(match, tails(match))
    taken = without(taken, leaving(match, tails(match), 1))
    front = of_cell(first)
    reached = front
    goal = 0 if is_empty(both(front, goals)) else 1
    for move in range(2, moves + 1):
        taken = without(taken, leaving(match, ends, move))
        ends = further(match, ends)
        front = without(without(neighbours(front), taken), reached)
        if is_empty(front):
            break
        reached = either(reached, front)
        if goal == 0 and not is_empty(both(front, goals)):
            goal = move
    return count(reached), goal


@njit
def heads(match, first, snake):
    """The heads of the three snakes from `first`, the own one left out."""
    cells = EMPTY
    for other in range(first, first + TEAM):
        if other != snake and match[LENGTH + other] > 0:
            cells = either(cells, of_cell(int(match[HEAD + other])))
    return cells


@njit
def contest(match, taken, snake, first, goals, moves):
    """Who gets where first, if the own head enters the cell `first` and everybody then walks all ways at once.

    Returns how many cells the snake reaches first and how many its foes (cells that both sides reach on the same move
    are nobody's), and what the beans are worth: 240 / (moves + 1) for each that its side is first at, own ones twice,
    less the same for the foes'.
    """
    team = 0 if snake < TEAM else TEAM
    ends = further(match, tails(match))
    taken = without(taken, leaving(match, tails(match), 1))
    own = of_cell(first)
    mates = without(without(neighbours(heads(match, team, snake)), taken), own)
    foes = without(without(neighbours(heads(match, TEAM - team, snake)), taken), own)
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


@njit
def may_stay(match, snake, cell):
    """Whether this cell holds the tail of another snake that may eat on this move, so that its tail would stay."""
    owner = int(match[BOARD + cell]) - SNAKE
    if owner < 0 or owner >= SNAKES or owner == snake:
        return False
    head = int(match[HEAD + owner])
    near = False
    for direction in range(4):
        near = near or match[BOARD + neighbour(head, direction)] == BEAN
    return near
