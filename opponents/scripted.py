"""The ladder of scripted opponents: one decision for one snake, read off the match's bytes.

Each is a compiled function `decide(match, shared, key, snake) -> move` that runs inside the batch, on the CPU and on
the GPU, like the rules; `shared` is what observe.measure says of the match. To add one, write such a function and put
it into SCRIPTED at the end of this file: every command then knows it by its name.

None ever asks for a reversal: that would hand the move to chance.
"""

from arena.jit import njit
from arena.lanes import around, forward, lane, less, smaller
from arena.observe import near_heads, wrapped
from arena.rng import SLOT_POLICY, draw_below
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    BOARD,
    COLUMNS,
    DIRECTION,
    DOWN,
    FREE,
    HEAD,
    LEFT,
    LENGTH,
    RIGHT,
    ROWS,
    TEAM,
    TURN,
    UP,
    neighbour,
    turns_until_free,
)
from opponents.bitboard import EMPTY, either, is_empty, of_cell
from opponents.search import beans, bodies, contest, explore, may_stay

NEVER = -1 << 30
NO_BEAN = 1 << 20
DEAD = 1000  # a move that is sure death costs this much


@njit
def level0(match, shared, key, snake):
    """Random: any move but the reversal."""
    back = int(match[DIRECTION + snake]) ^ 1
    pick = draw_below(key, int(match[TURN]), SLOT_POLICY + snake, 3)
    return pick if pick < back else pick + 1


@njit
def bean_distances(shared, snake):
    """Moves to each bean, in lanes: for the snake itself, the nearest mate and the nearest foe."""
    d0, d1, d2, d3, d4, d5 = shared[2]
    if snake >= TEAM:
        d0, d1, d2, d3, d4, d5 = d3, d4, d5, d0, d1, d2
    seat = snake % TEAM
    own = d0 if seat == 0 else d1 if seat == 1 else d2
    mate0 = d1 if seat == 0 else d0
    mate1 = d1 if seat == 2 else d2
    return own, smaller(mate0, mate1), smaller(d3, smaller(d4, d5))


@njit
def meetings(shared, snake):
    """Per move how many other heads could enter the same cell: four bytes for foes, then four for mates."""
    rows = forward(shared[0][0], lane(shared[0][0], snake), ROWS)
    columns = forward(shared[0][1], lane(shared[0][1], snake), COLUMNS)
    return near_heads(rows, columns, around(rows, ROWS) + around(columns, COLUMNS), snake)


@njit
def cheapest(match, cost):
    """The bean whose lane holds the smallest number; -1 if there are no beans."""
    best = NO_BEAN
    for i in range(BEANS_MAX):
        entry = lane(cost, i) << 3 | i
        best = min(best, entry if i < match[BEAN_COUNT] else NO_BEAN)
    return best & 7 if best < NO_BEAN else -1


@njit
def ways_to(shared, snake, bean):
    """The moves that bring a snake nearer to a bean, as bits."""
    if bean < 0:
        return 0
    rows = wrapped(lane(shared[1][0], bean) - lane(shared[0][0], snake), ROWS)
    columns = wrapped(lane(shared[1][1], bean) - lane(shared[0][1], snake), COLUMNS)
    # Steps forward around the ring: going back is shorter from half of it on, going forward up to half.
    up = int(rows >= ROWS // 2) << UP
    down = int((rows > 0) & (rows <= ROWS // 2)) << DOWN
    left = int(columns >= COLUMNS // 2) << LEFT
    right = int((columns > 0) & (columns <= COLUMNS // 2)) << RIGHT
    return up | down | left | right


@njit
def order(a, b):
    """The larger first."""
    return max(a, b), min(a, b)


@njit
def ranked(direction, ways):
    """The three moves that are no reversal, best first, each as 4 * score + move: nearer is 4, straight on is 1."""
    turn = UP if direction >= LEFT else LEFT
    a = ((ways >> direction & 1) * 4 + 1) * 4 + direction
    b = (ways >> turn & 1) * 16 + turn
    c = (ways >> (turn + 1) & 1) * 16 + turn + 1
    a, b = order(a, b)
    b, c = order(b, c)
    a, b = order(a, b)
    return a, b, c


@njit
def level1(match, shared, key, snake):
    """Greedy: straight for the nearest bean, whatever is in the way."""
    own = bean_distances(shared, snake)[0]
    ways = ways_to(shared, snake, cheapest(match, own))
    return ranked(int(match[DIRECTION + snake]), ways)[0] & 3


@njit
def level2(match, shared, key, snake):
    """Greedy with open eyes: the nearest bean that no mate is nearer to, around occupied cells."""
    own, mate, _ = bean_distances(shared, snake)
    # A bean that a mate is nearer to counts as eight moves further off.
    ways = ways_to(shared, snake, cheapest(match, own + less(mate, own) * 8))
    head = int(match[HEAD + snake])
    moves = ranked(int(match[DIRECTION + snake]), ways)
    for move in moves:
        there = match[BOARD + neighbour(head, move & 3)]
        if there in (FREE, BEAN):
            return move & 3
    return moves[0] & 3


@njit
def exits(match, cell):
    """Ways on from a cell that is entered on this turn: neighbours that will be free by the next."""
    free = 0
    for direction in range(4):
        free += int(turns_until_free(match, neighbour(cell, direction)) <= 2)
    return free


@njit
def level3(match, shared, key, snake):
    """Minds its head: keeps off cells that another head may enter, follows tails, shuns tight spots."""
    own, mate, _ = bean_distances(shared, snake)
    ways = ways_to(shared, snake, cheapest(match, own + less(mate, own) * 8))
    near = meetings(shared, snake)
    head = int(match[HEAD + snake])
    best = NEVER
    chosen = 0
    for move in ranked(int(match[DIRECTION + snake]), ways):
        score = move >> 2
        if best >= score:  # no move from here on can be better
            break
        move &= 3
        cell = neighbour(head, move)
        free = exits(match, cell)
        score -= DEAD * int(turns_until_free(match, cell) > 1)
        score -= 16 * ((near >> 8 * move & 3) + (near >> 32 + 8 * move & 3))
        score -= 200 * int(free == 0) + 4 * int(free == 1)
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def level4(match, shared, key, snake):
    """Adapts: goes for beans it can win, and the longer it is the more careful it grows."""
    own, mate, foe = bean_distances(shared, snake)
    ways = ways_to(shared, snake, cheapest(match, own + less(mate, own) * 8 + less(foe, own) * 4))
    near = meetings(shared, snake)
    head = int(match[HEAD + snake])
    care = 8 + 2 * int(match[LENGTH + snake])
    best = NEVER
    chosen = 0
    for move in ranked(int(match[DIRECTION + snake]), ways):
        score = move >> 2
        if best >= score:
            break
        move &= 3
        cell = neighbour(head, move)
        wait = turns_until_free(match, cell)
        free = exits(match, cell)
        score -= DEAD * int(wait > 1)
        score -= care * (near >> 8 * move & 3) + 80 * (near >> 32 + 8 * move & 3)
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
    enough = 2 * int(match[LENGTH + snake]) + 4
    taken = bodies(match)
    goals = EMPTY
    for i in range(int(match[BEAN_COUNT])):
        if lane(own, i) <= min(lane(mate, i), lane(foe, i)):
            goals = either(goals, of_cell(int(match[BEANS + i])))
    if is_empty(goals):
        goals = beans(match)
    best = NEVER
    moves = ranked(int(match[DIRECTION + snake]), 0)
    chosen = moves[0] & 3
    for move in moves:
        score = move >> 2
        move &= 3
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
    moves = ranked(int(match[DIRECTION + snake]), 0)
    chosen = moves[0] & 3
    for move in moves:
        score = move >> 2
        move &= 3
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
