"""The ladder of scripted opponents: each decides one move of one snake from the bytes of the match.

Each is a compiled function `decide(match, key, snake) -> move` that runs inside the batch, on the CPU and on the GPU,
like the rules. To add one, write such a function and put it into SCRIPTED at the end of this file: every command then
knows it by its name. The four directions are imported for new opponents; docs/extend.md has an example.

None asks for a reversal: the rules would replace it by a random move.
"""

from arena.bitboard import EMPTY, either, is_empty, of_cell
from arena.dangers import tail_may_stay
from arena.jit import njit
from arena.rng import SLOT_POLICY, draw_below
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BOARD,
    DOWN,  # noqa: F401
    FREE,
    LEFT,  # noqa: F401
    LENGTH,
    RIGHT,  # noqa: F401
    TEAM,
    TURN,
    UP,  # noqa: F401
    first_foe,
    first_mate,
    turns_until_free,
)
from arena.search import beans, contest, explore, waits_of
from opponents.tactics import (
    any_nearer,
    candidate,
    direction_of,
    distance,
    free_ways_on,
    head_of,
    heads_beside,
    moves_towards,
    nearest_bean,
    of_move,
)

NEVER = -1 << 30  # below any score
POINT = 2  # level1 to level4 count half points: half a point decides between equal moves
MATE_COST = 8  # moves that are added to the distance of a bean if a mate is nearer to it
FOE_COST = 4  # the same if a foe is nearer
EVASIVE_MOVES = 14  # depth of the search
TERRITORY_MOVES = 10


@njit
def level0(match, key, snake):
    """Random: any move but the reversal."""
    back = direction_of(match, snake) ^ 1
    pick = draw_below(key, int(match[TURN]), SLOT_POLICY + snake, 3)
    return pick if pick < back else pick + 1


@njit
def merit(towards, direction, move):
    """The score of a move without its dangers: 4 points if it leads nearer to the bean, 1 if it goes straight on.

    If only the reversal leads nearer, a turn gets the 1 point instead: it is the first half of turning around.
    Half a point more for leading nearer, so that this decides when the dangers make two moves equal.
    """
    leads_nearer = towards >> move & 1
    only_reversal = towards == 1 << (direction ^ 1)
    return (4 * POINT + 1) * leads_nearer + POINT * int((move == direction) != only_reversal)


@njit
def level1(match, key, snake):
    """Greedy: straight for the nearest bean, whatever is in the way."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    towards = moves_towards(head, nearest_bean(match, snake, 0, 0))
    best, chosen = NEVER, direction
    for number in range(3):
        move, _ = candidate(head, direction, number)
        score = merit(towards, direction, move)
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def level2(match, key, snake):
    """Greedy with open eyes: the nearest bean that no mate is nearer to, around occupied cells."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    towards = moves_towards(head, nearest_bean(match, snake, MATE_COST, 0))
    best, chosen = NEVER, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        on_cell = match[BOARD + cell]
        score = merit(towards, direction, move) - 100 * POINT * int(on_cell != FREE and on_cell != BEAN)
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def level3(match, key, snake):
    """Minds its head: keeps off cells that another head may enter, follows tails, shuns tight spots."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    towards = moves_towards(head, nearest_bean(match, snake, MATE_COST, 0))
    counts = heads_beside(match, first_mate(snake), head) + heads_beside(match, first_foe(snake), head)
    best, chosen = NEVER, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) > 1:
            continue
        score = merit(towards, direction, move) - 16 * POINT * of_move(counts, move)
        free = free_ways_on(match, cell, move)
        score -= POINT * (200 * int(free == 0) + 4 * int(free == 1))
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def level4(match, key, snake):
    """Adapts: goes for beans it can win, and the longer it is the more careful it grows."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    towards = moves_towards(head, nearest_bean(match, snake, MATE_COST, FOE_COST))
    mates = heads_beside(match, first_mate(snake), head)
    foes = heads_beside(match, first_foe(snake), head)
    care = 8 + 2 * int(match[LENGTH + snake])
    best, chosen = NEVER, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) > 1:
            continue
        score = merit(towards, direction, move)
        score -= POINT * (care * of_move(foes, move) + 80 * of_move(mates, move))
        free = free_ways_on(match, cell, move)
        score -= POINT * (200 * int(free == 0) + care * int(free == 1))
        score -= POINT * 2 * care * int(tail_may_stay(match, snake, cell))
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def beans_to_win(match, snake):
    """The beans that no other snake is nearer to; all beans if there are none."""
    head = head_of(match, snake)
    cells = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        bean = int(match[BEANS + i]) + 0
        own = distance(head, bean)
        if not any_nearer(match, 0, bean, own) and not any_nearer(match, TEAM, bean, own):
            cells = either(cells, of_cell(bean))
    return beans(match) if is_empty(cells) else cells


@njit
def evasive(match, key, snake):
    """Moves only where a search finds room enough for its body, then for the bean it reaches first."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    enough = 3 * int(match[LENGTH + snake]) + 3
    waits = waits_of(match)
    goals = beans_to_win(match, snake)
    counts = heads_beside(match, first_mate(snake), head) + heads_beside(match, first_foe(snake), head)
    best, chosen = NEVER, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) > 1:
            continue
        room, goal, _ = explore(waits, cell, goals, EVASIVE_MOVES)
        score = int(move == direction) - 20 * (enough - min(room, enough))
        score -= 100 * (of_move(counts, move) + int(tail_may_stay(match, snake, cell)))
        score -= 2 * goal if goal > 0 else 2 * EVASIVE_MOVES + 10
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def territory(match, key, snake):
    """Weighs who reaches which cell first: own ground and beans against the foes'; cuts off and shares out."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    length = int(match[LENGTH + snake])
    enough = 3 * length // 2 + 4
    waits = waits_of(match)
    goals = beans(match)
    mates = heads_beside(match, first_mate(snake), head)
    foes = heads_beside(match, first_foe(snake), head)
    best, chosen = NEVER, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) > 1:
            continue
        own_cells, foe_cells, worth = contest(match, waits, snake, cell, goals, TERRITORY_MOVES)
        # The weights were found by play. A bean that the snake itself reaches on the next move is worth 720 points;
        # a death is worth about as much per cell of length, times its probability.
        short = enough - min(own_cells, enough)
        danger = 100 * of_move(foes, move) + 150 * of_move(mates, move)
        danger += 300 * int(tail_may_stay(match, snake, cell))
        score = int(move == direction) + 5 * (own_cells - foe_cells) + 3 * worth
        score -= 150 * short * short // enough + (length + 2) * danger
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
