"""The probes in plain Python, as the reference. level4, territory and the searches have tests of their own."""

from collections.abc import Callable
from typing import Any

from arena.rules import BEAN_COUNT, BEANS, DIRECTION, LENGTH, TAIL, TURN, neighbour, turns_until_free
from arena.search import beans, contest, waits_of
from helpers.plain_levels import distance, foes, heads, mates
from opponents.scripted import level4, territory

Match = Any  # a row of the arena's state
TURNING_RIGHT = {0: 3, 3: 1, 1: 2, 2: 0}  # up, right, down, left


def ways(match: Match, snake: int) -> dict[int, int]:
    """Move -> cell, without the reversal: straight on, then the two turns in the order of their numbers."""
    head, ahead = heads(match)[snake], int(match[DIRECTION + snake])
    moves = sorted({0, 1, 2, 3} - {ahead, ahead ^ 1})
    return {move: int(neighbour(head, move)) for move in (ahead, *moves)}


def free(match: Match, cell: int) -> bool:
    return turns_until_free(match, cell) <= 1


def wish(match: Match, snake: int, move: int) -> int:
    open_ways = [way for way, cell in ways(match, snake).items() if free(match, cell)]
    return move if move in open_ways else [*open_ways, int(match[DIRECTION + snake])][0]


def go(match: Match, snake: int, goal: int) -> int:
    options = ways(match, snake)
    return min(options, key=lambda move: (not free(match, options[move]), distance(options[move], goal)))


def nearest(match: Match, snake: int) -> int:
    return min(foes(snake), key=lambda foe: distance(heads(match)[snake], heads(match)[foe]))


def ahead_of(match: Match, snake: int) -> int:
    return int(neighbour(heads(match)[snake], int(match[DIRECTION + snake])))


def circler(match: Match, key: int, snake: int) -> int:
    return wish(match, snake, TURNING_RIGHT[int(match[DIRECTION + snake])])


def straight(match: Match, key: int, snake: int) -> int:
    return wish(match, snake, int(match[DIRECTION + snake]))


def zigzag(match: Match, key: int, snake: int) -> int:
    turns = (2, 3) if int(match[DIRECTION + snake]) in (0, 1) else (0, 1)
    return wish(match, snake, turns[snake % 2])


def mirror(match: Match, key: int, snake: int) -> int:
    other = {0: 3, 1: 4, 2: 5, 3: 0, 4: 1, 5: 2}[snake]
    return wish(match, snake, {0: 1, 1: 0, 2: 3, 3: 2}[int(match[DIRECTION + other])])


def corner(match: Match, key: int, snake: int) -> int:
    goal = 0 if snake in (0, 1, 2) else 5 * 20 + 10
    return go(match, snake, goal) if distance(heads(match)[snake], goal) > 2 else circler(match, key, snake)


def tail_chaser(match: Match, key: int, snake: int) -> int:
    return go(match, snake, int(match[TAIL + snake]))


def shadow(match: Match, key: int, snake: int) -> int:
    return go(match, snake, int(match[TAIL + nearest(match, snake)]))


def coward(match: Match, key: int, snake: int) -> int:
    options = ways(match, snake)

    def worth(move: int) -> tuple[bool, int]:
        return free(match, options[move]), min(distance(options[move], heads(match)[foe]) for foe in foes(snake))

    return max(options, key=worth)


def thief(match: Match, key: int, snake: int) -> int:
    if not bean_cells(match):
        return go(match, snake, ahead_of(match, snake))
    return go(
        match,
        snake,
        min(bean_cells(match), key=lambda bean: min(distance(heads(match)[foe], bean) for foe in foes(snake))),
    )


def hoarder(match: Match, key: int, snake: int) -> int:
    return (tail_chaser if match[LENGTH + snake] >= 8 else level4)(match, key, snake)


def headhunter(match: Match, key: int, snake: int) -> int:
    return go(match, snake, ahead_of(match, nearest(match, snake)))


def kamikaze(match: Match, key: int, snake: int) -> int:
    longest = max(foes(snake), key=lambda foe: int(match[LENGTH + foe]))
    if match[LENGTH + snake] >= match[LENGTH + longest]:
        return level4(match, key, snake)
    return go(match, snake, ahead_of(match, longest))


def late_hunter(match: Match, key: int, snake: int) -> int:
    return (headhunter if match[TURN] >= 150 else level4)(match, key, snake)


def suicider(match: Match, key: int, snake: int) -> int:
    deadly = [move for move, cell in ways(match, snake).items() if not free(match, cell)]
    return deadly[0] if deadly else headhunter(match, key, snake)


def mixed(match: Match, key: int, snake: int) -> int:
    return (territory, level4, headhunter)[snake % 3](match, key, snake)


def searched(
    match: Match, snake: int, foe_ground: int, bean_share: int, eating: int, goal: int | None = None, pull: int = 0
) -> int:
    """The move that opponents.tastes.weighed_move finds best, the first of equals; straight on if none is free."""
    options = {move: cell for move, cell in ways(match, snake).items() if free(match, cell)}
    length, lying = int(match[LENGTH + snake]), bean_cells(match)

    def score(move: int) -> int:
        cell = options[move]
        ground, lost, worth = contest(match, waits_of(match), snake, cell, beans(match), 10)
        enough = 3 * length // 2 + 4
        short = max(0, enough - ground)
        near_foes, near_mates = (
            sum(distance(cell, heads(match)[other]) == 1 == distance(cell, heads(match)[snake]) for other in others)
            for others in (foes(snake), mates(snake))
        )
        danger = (length + 2) * (100 * near_foes + 150 * near_mates)
        total = (move == match[DIRECTION + snake]) + 5 * ground - foe_ground * lost + bean_share * worth
        total += eating * (cell in lying) - 150 * short**2 // enough - danger
        return total if goal is None else total - pull * distance(cell, goal)

    return max(options, key=score) if options else int(match[DIRECTION + snake])


def bean_cells(match: Match) -> list[int]:
    return [int(cell) for cell in match[BEANS : BEANS + int(match[BEAN_COUNT])]]


def abstainer(match: Match, key: int, snake: int) -> int:
    return searched(match, snake, 5, 0, -2000)


def blocker(match: Match, key: int, snake: int) -> int:
    return searched(match, snake, 20, 1, 0)


def drawer(match: Match, key: int, snake: int) -> int:
    own = sum(int(match[LENGTH + each]) for each in (snake, *mates(snake)))
    behind = own < sum(int(match[LENGTH + each]) for each in foes(snake))
    return searched(match, snake, 5, 3, 0) if behind else searched(match, snake, 10, 0, -2000)


def longest_hunter(match: Match, key: int, snake: int) -> int:
    longest = max(foes(snake), key=lambda foe: int(match[LENGTH + foe]))
    return searched(match, snake, 10, 1, 0, ahead_of(match, longest), 60)


def bean_guard(match: Match, key: int, snake: int) -> int:
    head = heads(match)[snake]
    own = [
        bean
        for bean in bean_cells(match)
        if all(distance(heads(match)[mate], bean) >= distance(head, bean) for mate in mates(snake))
    ]
    if not own:
        return searched(match, snake, 5, 0, -2000)
    guarded = min(own, key=lambda bean: distance(head, bean))
    if any(distance(heads(match)[foe], guarded) <= 3 for foe in foes(snake)):
        return searched(match, snake, 5, 3, 0, guarded, 40)
    return searched(match, snake, 5, 0, -2000, guarded, 40)


PLAIN_PROBES: dict[str, Callable[[Match, int, int], int]] = {
    function.__name__: function
    for function in (
        *(circler, straight, zigzag, mirror, corner, tail_chaser, shadow, coward, thief, hoarder, headhunter),
        *(kamikaze, late_hunter, suicider, mixed),
        *(abstainer, blocker, drawer, longest_hunter, bean_guard),
    )
}
