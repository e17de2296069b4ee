"""Probes: scripted opponents off the ladder, for finding weak spots of a team rather than for climbing.

Functions like those of opponents/scripted.py, `decide(match, key, snake) -> move`, in a file and a table of their own:
a training compiles a probe only if `--opponents` names it. Those that search are in opponents/tastes.py. None asks for
a reversal.
"""

from arena.jit import njit
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    CELLS,
    COLUMNS,
    DOWN,
    LEFT,
    LENGTH,
    RIGHT,
    SNAKES,
    TAIL,
    TEAM,
    TURN,
    UP,
    first_foe,
    neighbour,
    turns_until_free,
)
from opponents.scripted import level4, territory
from opponents.tactics import FAR, candidate, direction_of, distance, head_of
from opponents.tastes import abstainer, bean_guard, blocker, drawer, longest_hunter

HOARD = 8  # length from which a hoarder stops eating
LATE = 150  # turn from which the late hunter hunts
NEAR = 2  # moves from its corner at which a snake begins to circle


# --- what several probes use ------------------------------------------------------------------------------------------


@njit
def right_of(direction):
    """The direction after a turn to the right."""
    return (RIGHT, LEFT, UP, DOWN)[direction]


@njit
def free_move(match, snake, wish):
    """The wished move if its cell is free on the next turn; else the first free one, straight on first."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    if wish != direction ^ 1 and turns_until_free(match, neighbour(head, wish)) <= 1:
        return wish
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) <= 1:
            return move
    return direction


@njit
def step_towards(match, snake, goal):
    """The move to the free cell nearest to a goal; of equals straight on first."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    lowest, chosen = 3 * FAR, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        cost = distance(cell, goal) + FAR * int(turns_until_free(match, cell) > 1)
        if cost < lowest:
            lowest, chosen = cost, move
    return chosen


@njit
def nearest_foe(match, snake):
    """The foe whose head is nearest; the first of equals."""
    first, head = first_foe(snake), head_of(match, snake)
    nearest = first
    for foe in range(first, first + TEAM):
        if distance(head, head_of(match, foe)) < distance(head, head_of(match, nearest)):
            nearest = foe
    return nearest


@njit
def cell_ahead(match, snake):
    """The cell that a snake enters if it goes straight on."""
    return neighbour(head_of(match, snake), direction_of(match, snake))


# --- the teams --------------------------------------------------------------------------------------------------------


@njit
def circler(match, key, snake):
    """Turns right for ever, unless something is in the way."""
    return free_move(match, snake, right_of(direction_of(match, snake)))


@njit
def straight(match, key, snake):
    """Never turns, unless something is in the way."""
    return free_move(match, snake, direction_of(match, snake))


@njit
def zigzag(match, key, snake):
    """Turns on every move, left and right by turns: a staircase."""
    vertical = direction_of(match, snake) < LEFT
    return free_move(match, snake, (LEFT if vertical else UP) + snake % 2)


@njit
def mirror(match, key, snake):
    """Goes the opposite way of the foe with the same place in its team."""
    return free_move(match, snake, direction_of(match, (snake + TEAM) % SNAKES) ^ 1)


@njit
def corner(match, key, snake):
    """Runs to its team's corner and circles there."""
    goal = 0 if snake < TEAM else CELLS // 2 + COLUMNS // 2
    if distance(head_of(match, snake), goal) > NEAR:
        return step_towards(match, snake, goal)
    return free_move(match, snake, right_of(direction_of(match, snake)))


@njit
def tail_chaser(match, key, snake):
    """Follows its own tail."""
    return step_towards(match, snake, int(match[TAIL + snake]) + 0)


@njit
def shadow(match, key, snake):
    """Follows the tail of the nearest foe."""
    return step_towards(match, snake, int(match[TAIL + nearest_foe(match, snake)]) + 0)


@njit
def coward(match, key, snake):
    """Keeps as far from all foes' heads as it can."""
    head, direction, first = head_of(match, snake), direction_of(match, snake), first_foe(snake)
    highest, chosen = -3 * FAR, direction
    for number in range(3):
        move, cell = candidate(head, direction, number)
        room = FAR
        for foe in range(first, first + TEAM):
            room = min(room, distance(cell, head_of(match, foe)))
        room -= 2 * FAR * int(turns_until_free(match, cell) > 1)
        if room > highest:
            highest, chosen = room, move
    return chosen


@njit
def thief(match, key, snake):
    """Goes for the bean that a foe is nearest to."""
    first = first_foe(snake)
    lowest, goal = FAR, cell_ahead(match, snake)
    for i in range(int(match[BEAN_COUNT])):
        bean = int(match[BEANS + i]) + 0
        for foe in range(first, first + TEAM):
            moves = distance(head_of(match, foe), bean)
            if moves < lowest:
                lowest, goal = moves, bean
    return step_towards(match, snake, goal)


@njit
def hoarder(match, key, snake):
    """Plays level4 up to length 8, then follows its own tail."""
    return tail_chaser(match, key, snake) if match[LENGTH + snake] >= HOARD else level4(match, key, snake)


@njit
def headhunter(match, key, snake):
    """Goes for the cell in front of the nearest foe's head."""
    return step_towards(match, snake, cell_ahead(match, nearest_foe(match, snake)))


@njit
def kamikaze(match, key, snake):
    """Goes for the head of the longest foe as long as it is shorter; else plays level4."""
    first = first_foe(snake)
    longest = first
    for foe in range(first, first + TEAM):
        if match[LENGTH + foe] > match[LENGTH + longest]:
            longest = foe
    if match[LENGTH + snake] >= match[LENGTH + longest]:
        return level4(match, key, snake)
    return step_towards(match, snake, cell_ahead(match, longest))


@njit
def late_hunter(match, key, snake):
    """Plays level4 up to turn 150, then like headhunter."""
    return headhunter(match, key, snake) if match[TURN] >= LATE else level4(match, key, snake)


@njit
def suicider(match, key, snake):
    """Dies as often as it can: runs into the next body, or into the nearest foe's head."""
    head, direction = head_of(match, snake), direction_of(match, snake)
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) > 1:
            return move
    return headhunter(match, key, snake)


@njit
def mixed(match, key, snake):
    """Three different snakes: territory, level4 and headhunter."""
    place = snake % TEAM
    if place == 0:
        return territory(match, key, snake)
    return level4(match, key, snake) if place == 1 else headhunter(match, key, snake)


PROBES = {
    "circler": circler,
    "straight": straight,
    "zigzag": zigzag,
    "mirror": mirror,
    "corner": corner,
    "tail_chaser": tail_chaser,
    "shadow": shadow,
    "coward": coward,
    "thief": thief,
    "hoarder": hoarder,
    "headhunter": headhunter,
    "kamikaze": kamikaze,
    "late_hunter": late_hunter,
    "suicider": suicider,
    "mixed": mixed,
    "abstainer": abstainer,
    "blocker": blocker,
    "drawer": drawer,
    "longest_hunter": longest_hunter,
    "bean_guard": bean_guard,
}
