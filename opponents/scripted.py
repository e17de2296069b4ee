"""The ladder of scripted opponents: one decision for one snake, read off the match's bytes.

Each is a compiled function `decide(match, shared, key, snake) -> move` that runs inside the batch, on the CPU and on
the GPU, like the rules; `shared` is what outlook.py says of the match. To add one, write such a function and put
it into SCRIPTED at the end of this file: every command then knows it by its name.

None ever asks for a reversal: that would hand the move to chance.
"""

import numpy as np

from arena.jit import njit, njit_inline
from arena.rng import SLOT_POLICY, draw_below
from arena.rules import BEAN_COUNT, BEANS, BEANS_MAX, DIRECTION, HEAD, LENGTH, SNAKE, TURN, neighbour, turns_until_free
from opponents.bitboard import EMPTY, either, is_empty, of_cell
from opponents.outlook import (
    MOVE_BITS,
    ahead,
    blocked_or_tail,
    corners,
    each,
    narrows,
    near_heads,
    of_snake,
    owners_in,
    shut_in_time,
    taken,
)
from opponents.search import beans, bodies, contest, explore, may_stay

NEVER = -1 << 30


@njit_inline
def level0(match, shared, key, snake):
    """Random: any move but the reversal."""
    back = int(match[DIRECTION + snake]) ^ 1
    pick = draw_below(key, int(match[TURN]), SLOT_POLICY + snake, 3)
    return pick if pick < back else pick + 1


def _merit(direction, ways, move):
    """What speaks for a move before its dangers are looked at: 4 if it brings nearer, 1 if it is straight on.

    If only the reversal would bring nearer, 1 for a turn instead: it begins the way back.
    """
    return (ways >> move & 1) * 4 + int((move == direction) != (ways == 1 << (direction ^ 1)))


# A score has a number for each move (see outlook.py): points, and below them what decides between equals.
POINT = 8
START = 4000 * POINT  # so that no number ever falls below zero and borrows from the next one


def _merits() -> np.ndarray:
    """For each direction and set of ways the score of a snake that nothing threatens."""
    table = np.zeros(64, np.int64)
    for direction in range(4):
        for ways in range(16):
            for move in range(4):
                # Of equals the one that brings nearer, then the first.
                score = START + POINT * _merit(direction, ways, move) + 4 * (ways >> move & 1) + 3 - move
                table[direction << 4 | ways] |= score << MOVE_BITS * move
    return table


MERITS = _merits()


@njit
def merits(direction, ways):
    """The score to begin with: what speaks for each move before its dangers are looked at."""
    return int(MERITS[(direction << 4 | ways) & 63])


@njit
def best_move(score, direction):
    """The move with the highest score, the reversal left out."""
    score &= ~(0xFFFF << MOVE_BITS * (direction ^ 1))
    up, down = score & 0xFFFF, score >> 16 & 0xFFFF
    left, right = score >> 32 & 0xFFFF, score >> 48
    return max(max(up, down), max(left, right)) & 3 ^ 3


@njit
def best_open(score, direction, blocked):
    """The move with the highest score among those that are not blocked; straight on if all are."""
    score &= ~(blocked * 0xFFFF)
    return best_move(score | (3 - direction) << MOVE_BITS * direction, direction)


@njit_inline
def level1(match, shared, key, snake):
    """Greedy: straight for the nearest bean, whatever is in the way."""
    direction = int(match[DIRECTION + snake])
    return best_move(merits(direction, of_snake(shared.nearest, snake)), direction)


@njit_inline
def level2(match, shared, key, snake):
    """Greedy with open eyes: the nearest bean that no mate is nearer to, around occupied cells."""
    direction = int(match[DIRECTION + snake])
    score = merits(direction, of_snake(shared.fair, snake))
    score -= 100 * POINT * taken(match, ahead(int(match[HEAD + snake])))
    return best_move(score, direction)


@njit_inline
def level3(match, shared, key, snake):
    """Minds its head: keeps off cells that another head may enter, follows tails, shuns tight spots."""
    direction = int(match[DIRECTION + snake])
    head = int(match[HEAD + snake])
    cells = ahead(head)
    score = merits(direction, of_snake(shared.fair, snake))
    mates, foes = near_heads(shared, snake)
    score -= 16 * POINT * each(mates + foes)
    dead_end, tight = narrows(shut_in_time(match, cells, corners(head)))
    score -= 200 * POINT * dead_end + 4 * POINT * tight
    blocked, _ = blocked_or_tail(match, cells)
    return best_open(score, direction, blocked)


@njit_inline
def level4(match, shared, key, snake):
    """Adapts: goes for beans it can win, and the longer it is the more careful it grows."""
    direction = int(match[DIRECTION + snake])
    head = int(match[HEAD + snake])
    cells = ahead(head)
    care = POINT * (8 + 2 * int(match[LENGTH + snake]))
    score = merits(direction, of_snake(shared.winnable, snake))
    mates, foes = near_heads(shared, snake)
    score -= care * each(foes) + 80 * POINT * each(mates)
    dead_end, tight = narrows(shut_in_time(match, cells, corners(head)))
    score -= 200 * POINT * dead_end + care * tight
    blocked, tail = blocked_or_tail(match, cells)
    others_may_eat = shared.may_eat & ~(1 << SNAKE + snake)
    score -= 2 * care * (tail & owners_in(match, cells, others_may_eat))
    return best_open(score, direction, blocked)


def _straight_first() -> int:
    """For each direction, eight bits apart, the three moves that are no reversal, straight on first: two bits each."""
    packed = 0
    for direction in range(4):
        moves = sorted({0, 1, 2, 3} - {direction ^ 1}, key=lambda move: move != direction)
        packed |= sum(move << 8 * direction + 2 * place for place, move in enumerate(moves))
    return packed


STRAIGHT_FIRST = _straight_first()
EVASIVE_MOVES = 14  # how far the search looks


@njit
def evasive(match, shared, key, snake):
    """Moves only where a search finds room enough for its body, then for the bean it reaches first."""
    mates, foes = near_heads(shared, snake)
    lost = shared.lost >> BEANS_MAX * snake
    head = int(match[HEAD + snake])
    enough = 3 * int(match[LENGTH + snake]) + 3
    taken = bodies(match)
    goals = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        if lost >> i & 1 == 0:
            goals = either(goals, of_cell(int(match[BEANS + i])))
    if is_empty(goals):
        goals = beans(match)
    best = NEVER
    direction = int(match[DIRECTION + snake])
    chosen = direction
    for place in range(3):
        move = STRAIGHT_FIRST >> 8 * direction + 2 * place & 3
        score = int(move == direction)
        cell = neighbour(head, move)
        if turns_until_free(match, cell) > 1:
            continue
        room, goal = explore(match, taken, cell, goals, EVASIVE_MOVES)
        score -= 20 * (enough - min(room, enough))
        score -= 100 * ((foes >> 2 * move & 3) + (mates >> 2 * move & 3))
        score -= 100 * int(may_stay(match, snake, cell))
        score -= 2 * goal if goal > 0 else 2 * EVASIVE_MOVES + 10
        if score > best:
            best, chosen = score, move
    return chosen


TERRITORY_MOVES = 10


@njit
def territory(match, shared, key, snake):
    """Weighs who reaches which cell first: own ground and beans against the foes'; cuts off and shares out."""
    mates, foes = near_heads(shared, snake)
    head = int(match[HEAD + snake])
    length = int(match[LENGTH + snake])
    enough = 3 * length // 2 + 4
    taken = bodies(match)
    goals = beans(match)
    best = NEVER
    direction = int(match[DIRECTION + snake])
    chosen = direction
    for place in range(3):
        move = STRAIGHT_FIRST >> 8 * direction + 2 * place & 3
        score = int(move == direction)
        cell = neighbour(head, move)
        if turns_until_free(match, cell) > 1:
            continue
        own_cells, foe_cells, worth = contest(match, taken, snake, cell, goals, TERRITORY_MOVES)
        # The weights were found by play: an own bean on the next move is worth 720, so dying costs about that per cell
        # of length, times how likely it is.
        short = enough - min(own_cells, enough)
        danger = 100 * (foes >> 2 * move & 3) + 150 * (mates >> 2 * move & 3)
        danger += 300 * int(may_stay(match, snake, cell))
        score += 5 * (own_cells - foe_cells) + 3 * worth - 150 * short * short // enough - (length + 2) * danger
        if score > best:
            best, chosen = score, move
    return chosen


SCRIPTED = {
    "level0": level0,
    "level1": level1,
    "level2": level2,
    "level3": level3,
    "level4": level4,
    "evasive": evasive,
    "territory": territory,
}
