"""Dangers of an action: dead ends, and tails that stay where they are.

A dead end is an action after which a snake has no way on, found by exhaustive search over its own moves. The other five
snakes stand still in this search: their heads stay, their tails go on. It finds a pocket between bodies that kills some
turns later.
"""

from arena.jit import njit
from arena.rules import BEAN, BOARD, HEAD, LENGTH, SNAKE, SNAKES, neighbour, turns_until_free

DEPTH = 8  # turns: a path without its last cell fits into 64 bits, one byte for each cell
MOST_STEPS = 256  # of a search; without a verdict by then the action counts as no dead end


@njit
def can_enter(match, snake, cell, turn, path):
    """Whether the snake can enter a cell on the turn after the first `turn` turns, which made the path."""
    on_path = False
    for age in range(1, min(turn + 1, int(match[LENGTH + snake]))):
        on_path = on_path or (path >> 8 * (turn - age)) & 255 == cell
    return not on_path and turns_until_free(match, cell) <= turn + 1


@njit
def is_dead_end(match, snake, action):
    """Whether a snake that plays this action cannot go on for DEPTH turns, whatever it plays then."""
    path = 0  # cells entered, the first one in the lowest byte
    actions = action  # three bits for each turn: the action to try; beyond 3 none is left
    turn = 0
    for _ in range(MOST_STEPS):
        tried = (actions >> 3 * turn) & 7
        if turn == 0 and tried != action:
            return True
        if tried > 3:  # back to the turn before, and to its next action
            turn -= 1
            actions += 1 << 3 * turn
            continue
        here = (path >> 8 * (turn - 1)) & 255 if turn else int(match[HEAD + snake])
        cell = neighbour(here, tried)
        if not can_enter(match, snake, cell, turn, path):
            actions += 1 << 3 * turn
            continue
        if turn == DEPTH - 1:
            return False
        path = (path & ((1 << 8 * turn) - 1)) | (cell << 8 * turn)
        turn += 1
        actions &= (1 << 3 * turn) - 1
    return False


@njit
def tail_may_stay(match, snake, cell):
    """Whether another snake that may eat on this turn is on this cell: if the cell is its tail, the tail stays."""
    owner = int(match[BOARD + cell]) - SNAKE
    if owner < 0 or owner >= SNAKES or owner == snake:
        return False
    head = int(match[HEAD + owner])
    bean_beside = False
    for action in range(4):
        bean_beside |= match[BOARD + neighbour(head, action)] == BEAN
    return bean_beside
