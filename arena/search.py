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

MOVES_MAX = 14  # of a search


@njit
def waits_of(match):
    """For every cell of a body the move on which it can be entered, up to 15, as four sets: set k has the cells with
    bit k in that number. So all cells are compared with a number at once (`taken`).
    """
    ones, twos, fours, eights, late = EMPTY, EMPTY, EMPTY, EMPTY, EMPTY
    for snake in range(SNAKES):
        cell = int(match[TAIL + snake])
        for move in range(1, int(match[LENGTH + snake]) + 1):
            one = of_cell(cell)
            if move > MOVES_MAX:
                late = either(late, one)
            else:
                if move & 1:
                    ones = either(ones, one)
                if move & 2:
                    twos = either(twos, one)
                if move & 4:
                    fours = either(fours, one)
                if move & 8:
                    eights = either(eights, one)
            cell = int(match[LINK + cell])
    return either(ones, late), either(twos, late), either(fours, late), either(eights, late)


@njit
def later(one, two, four, eight, move):
    """In one word of `waits`, the cells with a number above `move`."""
    cells = one & (move & 1) - 1
    cells = two & cells | (two | cells) & (move >> 1 & 1) - 1
    cells = four & cells | (four | cells) & (move >> 2 & 1) - 1
    return eight & cells | (eight | cells) & (move >> 3 & 1) - 1


@njit
def taken(waits, move):
    """The cells that no snake can enter on the move-th move from now (from 1, up to MOVES_MAX)."""
    ones, twos, fours, eights = waits
    return (
        later(ones[0], twos[0], fours[0], eights[0], move),
        later(ones[1], twos[1], fours[1], eights[1], move),
        later(ones[2], twos[2], fours[2], eights[2], move),
        later(ones[3], twos[3], fours[3], eights[3], move),
    )


@njit
def beans(match):
    """All cells that hold a bean."""
    cells = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        cells = either(cells, of_cell(int(match[BEANS + i])))
    return cells


@njit
def explore(waits, first, goals, moves):
    """Search from the cell `first`, entered on the first move, up to `moves` moves deep.

    Returns the number of cells that can be reached, the move on which the first of `goals` is reached (0: none), and
    the last move on which a new cell is reached.
    """
    front = of_cell(first)
    reached = front
    goal = 0 if is_empty(both(front, goals)) else 1
    last = 1
    for move in range(2, moves + 1):
        front = without(neighbours(front), either(taken(waits, move), reached))
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
def balance(own, mates, foes, goals):
    """Goals among these cells: two for each of the snake's own, one for each of its mates', minus those of its foes."""
    return 2 * count(both(own, goals)) + count(both(mates, goals)) - count(both(foes, goals))


@njit
def contest(match, waits, snake, first, goals, moves):
    """Which side reaches which cell first, if this snake enters the cell `first` and all heads then search at once.

    Returns the number of cells that the snake reaches first, the number that its foes reach first (a cell that both
    sides reach on the same move belongs to nobody), and the worth of the beans: 240 / (moves + 1) for each bean that
    the snake's side reaches first, twice that if it is the snake itself, minus the same for beans of the foes.
    """
    own = of_cell(first)
    shut = either(taken(waits, 1), own)
    mates = without(neighbours(heads(match, first_mate(snake), snake)), shut)
    foes = without(neighbours(heads(match, first_foe(snake), snake)), shut)
    both_sides = both(mates, foes)
    claimed = either(own, either(mates, foes))
    mates = without(mates, both_sides)
    foes = without(foes, both_sides)
    own_cells, foe_cells = own, foes
    worth = 120 * balance(own, mates, foes, goals)
    for move in range(2, moves + 1):
        shut = either(taken(waits, move), claimed)
        own = without(neighbours(own), shut)
        mates = without(without(neighbours(mates), shut), own)
        foes = without(neighbours(foes), shut)
        both_sides = both(either(own, mates), foes)
        claimed = either(claimed, either(own, either(mates, foes)))
        own = without(own, both_sides)
        mates = without(mates, both_sides)
        foes = without(foes, both_sides)
        own_cells = either(own_cells, own)
        foe_cells = either(foe_cells, foes)
        if not is_empty(both(goals, either(own, either(mates, foes)))):
            worth += 240 // (move + 1) * balance(own, mates, foes, goals)
    return count(own_cells), count(foe_cells), worth
