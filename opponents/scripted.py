"""The ladder of scripted opponents: one decision for one snake, read off the match's bytes.

Each is a compiled function `decide(match, shared, key, snake) -> move` that runs inside the batch, on the CPU and on
the GPU, like the rules; `shared` is what measure.py says of the match. To add one, write such a function and put
it into SCRIPTED at the end of this file: every command then knows it by its name.

None ever asks for a reversal: that would hand the move to chance.
"""

import numpy as np

from arena.jit import njit, njit_inline
from arena.lanes import around, forward, lane, less
from arena.measure import NOWHERE, bean_distances, near_heads, wrapped
from arena.rng import SLOT_POLICY, draw_below
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    BOARD,
    CELLS,
    COLUMNS,
    DIRECTION,
    DOWN,
    FREE,
    HEAD,
    LEFT,
    LENGTH,
    RIGHT,
    ROWS,
    SNAKE,
    TEAM,
    TURN,
    UP,
    is_head,
    neighbour,
    turns_until_free,
)
from opponents.bitboard import EMPTY, either, is_empty, of_cell
from opponents.search import beans, bodies, contest, explore, may_stay

NEVER = -1 << 30


@njit_inline
def level0(match, shared, key, snake):
    """Random: any move but the reversal."""
    back = int(match[DIRECTION + snake]) ^ 1
    pick = draw_below(key, int(match[TURN]), SLOT_POLICY + snake, 3)
    return pick if pick < back else pick + 1


@njit_inline
def meetings(shared, snake):
    """Per move how many other heads could enter the same cell: four bytes for foes, then four for mates."""
    rows = forward(shared.head_rows, lane(shared.head_rows, snake), ROWS)
    columns = forward(shared.head_columns, lane(shared.head_columns, snake), COLUMNS)
    return near_heads(rows, columns, around(rows, ROWS) + around(columns, COLUMNS), snake)


@njit_inline
def cheapest(cost):
    """The bean whose lane holds the smallest number; -1 if there are no beans."""
    best = lane(cost, 0) << 3
    for i in range(1, BEANS_MAX):
        best = min(best, lane(cost, i) << 3 | i)
    return best & 7 if best < NOWHERE << 3 else -1


@njit_inline
def ways_to(shared, snake, bean):
    """The moves that bring a snake nearer to a bean, as bits."""
    if bean < 0:
        return 0
    rows = wrapped(lane(shared.bean_rows, bean) - lane(shared.head_rows, snake), ROWS)
    columns = wrapped(lane(shared.bean_columns, bean) - lane(shared.head_columns, snake), COLUMNS)
    # Steps forward around the ring: going back is shorter from half of it on, going forward up to half.
    up = int(rows >= ROWS // 2) << UP
    down = int((rows > 0) & (rows <= ROWS // 2)) << DOWN
    left = int(columns >= COLUMNS // 2) << LEFT
    right = int((columns > 0) & (columns <= COLUMNS // 2)) << RIGHT
    return up | down | left | right


def _merit(direction, ways, move):
    """What speaks for a move before its dangers are looked at: 4 if it brings nearer, 1 if it is straight on.

    If only the reversal would bring nearer, 1 for a turn instead: it begins the way back.
    """
    return (ways >> move & 1) * 4 + int((move == direction) != (ways == 1 << (direction ^ 1)))


merit = njit_inline(_merit)


def _preferences() -> np.ndarray:
    """For each direction and set of ways: the three moves that are no reversal, best first, two bits each."""
    table = np.zeros(64, np.uint8)
    for direction in range(4):
        for ways in range(16):
            merits = {move: _merit(direction, ways, move) for move in range(4) if move != direction ^ 1}
            best, second, third = sorted(merits, key=lambda move: -merits[move])
            table[direction << 4 | ways] = best | second << 2 | third << 4
    return table


PREFERENCES = _preferences()


@njit_inline
def preferred(direction, ways):
    """The three moves that are no reversal, best first, two bits each."""
    return int(PREFERENCES[direction << 4 | ways])


@njit_inline
def level1(match, shared, key, snake):
    """Greedy: straight for the nearest bean, whatever is in the way."""
    own = bean_distances(shared, snake)[0]
    ways = ways_to(shared, snake, cheapest(own))
    return preferred(int(match[DIRECTION + snake]), ways) & 3


@njit_inline
def level2(match, shared, key, snake):
    """Greedy with open eyes: the nearest bean that no mate is nearer to, around occupied cells."""
    own, mate, _ = bean_distances(shared, snake)
    # A bean that a mate is nearer to counts as eight moves further off.
    ways = ways_to(shared, snake, cheapest(own + less(mate, own) * 8))
    head = int(match[HEAD + snake])
    moves = preferred(int(match[DIRECTION + snake]), ways)
    for place in range(3):
        move = moves >> 2 * place & 3
        there = match[BOARD + neighbour(head, move)]
        if there in (FREE, BEAN):
            return move
    return moves & 3


@njit_inline
def beside(match, cell):
    """What a cell next to one that is entered on this turn means: 1 for a way on, 16 for a head."""
    return int(turns_until_free(match, cell) <= 2) + 16 * int(is_head(match, cell))


@njit_inline
def surroundings(match, cell):
    """The sum of `beside` over the four neighbours of a cell: ways on, and 16 times the heads."""
    column = cell % COLUMNS
    up = cell - COLUMNS + (CELLS if cell < COLUMNS else 0)
    down = cell + COLUMNS - (CELLS if cell >= CELLS - COLUMNS else 0)
    left = cell - 1 + (COLUMNS if column == 0 else 0)
    right = cell + 1 - (COLUMNS if column == COLUMNS - 1 else 0)
    return beside(match, up & 255) + beside(match, down & 255) + beside(match, left & 255) + beside(match, right & 255)


@njit
def mates_beside(match, snake, cell):
    """How many mates' heads are next to a cell."""
    heads = 0
    for direction in range(4):
        place = neighbour(cell, direction)
        other = int(match[BOARD + place]) - SNAKE
        heads += int(is_head(match, place) and other != snake and other // TEAM == snake // TEAM)
    return heads


@njit_inline
def level3(match, shared, key, snake):
    """Minds its head: keeps off cells that another head may enter, follows tails, shuns tight spots."""
    own, mate, _ = bean_distances(shared, snake)
    ways = ways_to(shared, snake, cheapest(own + less(mate, own) * 8))
    direction = int(match[DIRECTION + snake])
    moves = preferred(direction, ways)
    head = int(match[HEAD + snake])
    best = NEVER
    chosen = direction
    for place in range(3):
        move = moves >> 2 * place & 3
        score = merit(direction, ways, move)
        if best >= score:  # no move from here on can be better
            break
        cell = neighbour(head, move)
        if turns_until_free(match, cell) > 1:
            continue
        around_it = surroundings(match, cell)
        free = around_it & 15
        score -= (around_it & ~15) - 16  # 16 for each head but the own one, which is always there
        score -= 200 * int(free == 0) + 4 * int(free == 1)
        if score > best:
            best, chosen = score, move
    return chosen


@njit_inline
def level4(match, shared, key, snake):
    """Adapts: goes for beans it can win, and the longer it is the more careful it grows."""
    own, mate, foe = bean_distances(shared, snake)
    ways = ways_to(shared, snake, cheapest(own + less(mate, own) * 8 + less(foe, own) * 4))
    direction = int(match[DIRECTION + snake])
    moves = preferred(direction, ways)
    head = int(match[HEAD + snake])
    care = 8 + 2 * int(match[LENGTH + snake])
    best = NEVER
    chosen = direction
    for place in range(3):
        move = moves >> 2 * place & 3
        score = merit(direction, ways, move)
        if best >= score:
            break
        cell = neighbour(head, move)
        wait = turns_until_free(match, cell)
        if wait > 1:
            continue
        around_it = surroundings(match, cell)
        free = around_it & 15
        others = (around_it >> 4) - 1  # heads but the own one, which is always there
        if others > 0:
            mates = mates_beside(match, snake, cell)
            score -= care * (others - mates) + 80 * mates
        score -= 200 * int(free == 0) + care * int(free == 1)
        if wait == 1 and may_stay(match, snake, cell):
            score -= 2 * care
        if score > best:
            best, chosen = score, move
    return chosen


EVASIVE_MOVES = 14  # how far the search looks


@njit
def evasive(match, shared, key, snake):
    """Moves only where a search finds room enough for its body, then for the bean it reaches first."""
    own, mate, foe = bean_distances(shared, snake)
    near = meetings(shared, snake)
    head = int(match[HEAD + snake])
    enough = 3 * int(match[LENGTH + snake]) + 3
    taken = bodies(match)
    goals = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        if lane(own, i) <= min(lane(mate, i), lane(foe, i)):
            goals = either(goals, of_cell(int(match[BEANS + i])))
    if is_empty(goals):
        goals = beans(match)
    best = NEVER
    direction = int(match[DIRECTION + snake])
    moves = preferred(direction, 0)
    chosen = direction
    for place in range(3):
        move = moves >> 2 * place & 3
        score = int(move == direction)
        cell = neighbour(head, move)
        if turns_until_free(match, cell) > 1:
            continue
        room, goal = explore(match, taken, cell, goals, EVASIVE_MOVES)
        score -= 20 * (enough - min(room, enough))
        score -= 100 * ((near >> 8 * move & 3) + (near >> 32 + 8 * move & 3))
        score -= 100 * int(may_stay(match, snake, cell))
        score -= 2 * goal if goal > 0 else 2 * EVASIVE_MOVES + 10
        if score > best:
            best, chosen = score, move
    return chosen


TERRITORY_MOVES = 10


@njit
def territory(match, shared, key, snake):
    """Weighs who reaches which cell first: own ground and beans against the foes'; cuts off and shares out."""
    near = meetings(shared, snake)
    head = int(match[HEAD + snake])
    length = int(match[LENGTH + snake])
    enough = 3 * length // 2 + 4
    taken = bodies(match)
    goals = beans(match)
    best = NEVER
    direction = int(match[DIRECTION + snake])
    moves = preferred(direction, 0)
    chosen = direction
    for place in range(3):
        move = moves >> 2 * place & 3
        score = int(move == direction)
        cell = neighbour(head, move)
        if turns_until_free(match, cell) > 1:
            continue
        own_cells, foe_cells, worth = contest(match, taken, snake, cell, goals, TERRITORY_MOVES)
        # The weights were found by play: an own bean on the next move is worth 720, so dying costs about that per cell
        # of length, times how likely it is.
        short = enough - min(own_cells, enough)
        danger = 100 * (near >> 8 * move & 3) + 150 * (near >> 32 + 8 * move & 3)
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
