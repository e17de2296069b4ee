"""Probes that search as `territory` does and want something else: no beans, less room for the foes, a draw.

Most probes are weak; these stay alive, and so a team that has learned from bean eaters meets foes that are none.
"""

from arena.jit import njit
from arena.rules import BEAN, BEAN_COUNT, BEANS, BOARD, LENGTH, TEAM, first_foe, first_mate, neighbour, turns_until_free
from arena.search import beans, contest, waits_of
from opponents.scripted import NEVER, TERRITORY_MOVES
from opponents.tactics import NO_BEAN, any_nearer, candidate, direction_of, distance, head_of, heads_beside, of_move

EATS, FASTS = 0, -2000  # points for entering the cell of a bean
GUARDED = 3  # moves: a guard eats its bean when a foe is this near to it


@njit
def weighed_move(match, snake, foe_ground, bean_share, eating, goal, pull):
    """The best move by ground, beans and dangers, as `territory` weighs them.

    Each cell that the foes reach first costs `foe_ground`, beans count `bean_share`, entering one `eating`, and each
    move from `goal` (a cell; NO_BEAN: none) costs `pull`.
    """
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
        short = enough - min(own_cells, enough)
        score = int(move == direction) + 5 * own_cells - foe_ground * foe_cells + bean_share * worth
        score -= 150 * short * short // enough
        score -= (length + 2) * (100 * of_move(foes, move) + 150 * of_move(mates, move))
        score += eating * int(match[BOARD + cell] == BEAN)
        if goal != NO_BEAN:
            score -= pull * distance(cell, goal)
        if score > best:
            best, chosen = score, move
    return chosen


@njit
def abstainer(match, key, snake):
    """Never eats while another move is open; takes ground from the foes instead."""
    return weighed_move(match, snake, 5, 0, FASTS, NO_BEAN, 0)


@njit
def blocker(match, key, snake):
    """Leaves the foes as little room as it can; beans come second."""
    return weighed_move(match, snake, 20, 1, EATS, NO_BEAN, 0)


@njit
def team_lead(match, snake):
    """The length of a snake's team minus that of its foes."""
    lead = 0
    for other in range(TEAM):
        lead += int(match[LENGTH + first_mate(snake) + other]) - int(match[LENGTH + first_foe(snake) + other])
    return lead


@njit
def drawer(match, key, snake):
    """Plays for a draw: eats while its team is behind, keeps off beans when it is not."""
    if team_lead(match, snake) < 0:
        return weighed_move(match, snake, 5, 3, EATS, NO_BEAN, 0)
    return weighed_move(match, snake, 10, 0, FASTS, NO_BEAN, 0)


@njit
def longest_hunter(match, key, snake):
    """Stays near the cell ahead of the longest foe's head, to get into its way."""
    first = first_foe(snake)
    longest = first
    for foe in range(first + 1, first + TEAM):
        if match[LENGTH + foe] > match[LENGTH + longest]:
            longest = foe
    ahead = neighbour(head_of(match, longest), direction_of(match, longest))
    return weighed_move(match, snake, 10, 1, EATS, ahead, 60)


@njit
def bean_guard(match, key, snake):
    """Waits beside a bean that no mate is nearer to, and eats it only when a foe comes near."""
    head = head_of(match, snake)
    lowest, guarded = 1000, NO_BEAN
    for i in range(int(match[BEAN_COUNT])):
        bean = int(match[BEANS + i]) + 0
        moves = distance(head, bean)
        if moves < lowest and not any_nearer(match, first_mate(snake), bean, moves):
            lowest, guarded = moves, bean
    threatened = guarded != NO_BEAN and any_nearer(match, first_foe(snake), guarded, GUARDED + 1)
    return weighed_move(match, snake, 5, 3 if threatened else 0, EATS if threatened else FASTS, guarded, 40)
