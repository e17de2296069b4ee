"""level1 to level4 in plain Python, as the reference for the compiled ones."""

from collections.abc import Callable
from typing import Any

from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BOARD,
    COLUMNS,
    DIRECTION,
    FREE,
    HEAD,
    LENGTH,
    ROWS,
    SNAKE,
    SNAKES,
    TEAM,
    neighbour,
    turns_until_free,
)

Match = Any  # a row of the arena's state


def distance(a: int, b: int) -> int:
    rows, columns = abs(a // COLUMNS - b // COLUMNS), abs(a % COLUMNS - b % COLUMNS)
    return min(rows, ROWS - rows) + min(columns, COLUMNS - columns)


def heads(match: Match) -> list[int]:
    return [int(cell) for cell in match[HEAD : HEAD + SNAKES]]


def mates(snake: int) -> list[int]:
    return [other for other in range(SNAKES) if other != snake and other // TEAM == snake // TEAM]


def foes(snake: int) -> list[int]:
    return [other for other in range(SNAKES) if other // TEAM != snake // TEAM]


def merits(match: Match, snake: int, mates_cost: int, foes_cost: int) -> dict[int, int]:
    """The moves except the reversal, best first, with their scores without dangers."""
    head, direction = int(match[HEAD + snake]), int(match[DIRECTION + snake])
    nearer: list[int] = []
    beans = [int(cell) for cell in match[BEANS : BEANS + int(match[BEAN_COUNT])]]
    if beans:

        def cost(bean: int) -> int:
            own = distance(head, bean)
            found = own + mates_cost * any(distance(heads(match)[mate], bean) < own for mate in mates(snake))
            return found + foes_cost * any(distance(heads(match)[foe], bean) < own for foe in foes(snake))

        goal = min(beans, key=cost)
        nearer = [move for move in range(4) if distance(neighbour(head, move), goal) < distance(head, goal)]
    merit = {}
    for move in range(4):
        if move == direction ^ 1:
            continue
        # If only the reversal leads nearer, a turn is the first half of turning around.
        straight = move != direction if nearer == [direction ^ 1] else move == direction
        merit[move] = 4 * (move in nearer) + straight
    return dict(sorted(merit.items(), key=lambda item: -item[1]))


def best(scores: dict[int, int], otherwise: int) -> int:
    """The first move with the highest score."""
    return max(scores, key=lambda move: scores[move]) if scores else otherwise


def level1(match: Match, snake: int) -> int:
    return best(merits(match, snake, 0, 0), 0)


def level2(match: Match, snake: int) -> int:
    wanted = merits(match, snake, 8, 0)
    cells = {move: neighbour(int(match[HEAD + snake]), move) for move in wanted}
    return best(
        {move: wanted[move] for move in wanted if match[BOARD + cells[move]] in (FREE, BEAN)}, next(iter(wanted))
    )


def near(match: Match, cell: int, some: list[int]) -> int:
    """How many of these snakes have their head beside a cell."""
    return sum(heads(match)[snake] in [neighbour(cell, move) for move in range(4)] for snake in some)


def ways_on(match: Match, cell: int) -> int:
    """How many neighbours of a cell, which is entered on this turn, can be entered on the next turn."""
    return sum(turns_until_free(match, neighbour(cell, move)) <= 2 for move in range(4))


def level3(match: Match, snake: int) -> int:
    scores = {}
    for move, merit in merits(match, snake, 8, 0).items():
        cell = neighbour(int(match[HEAD + snake]), move)
        if turns_until_free(match, cell) <= 1:
            free = ways_on(match, cell)
            scores[move] = (
                merit - 16 * near(match, cell, mates(snake) + foes(snake)) - 200 * (free == 0) - 4 * (free == 1)
            )
    return best(scores, int(match[DIRECTION + snake]))


def tail_may_stay(match: Match, snake: int, cell: int) -> bool:
    """Whether this is the tail of another snake that may eat on this turn."""
    owner = int(match[BOARD + cell]) - SNAKE
    if turns_until_free(match, cell) != 1 or owner == snake:
        return False
    return any(match[BOARD + neighbour(int(match[HEAD + owner]), move)] == BEAN for move in range(4))


def level4(match: Match, snake: int) -> int:
    care = 8 + 2 * int(match[LENGTH + snake])
    scores = {}
    for move, merit in merits(match, snake, 8, 4).items():
        cell = neighbour(int(match[HEAD + snake]), move)
        if turns_until_free(match, cell) <= 1:
            free = ways_on(match, cell)
            scores[move] = merit - care * near(match, cell, foes(snake)) - 80 * near(match, cell, mates(snake))
            scores[move] -= 200 * (free == 0) + care * (free == 1)
            scores[move] -= 2 * care * tail_may_stay(match, snake, cell)
    return best(scores, int(match[DIRECTION + snake]))


PLAIN: dict[str, Callable[[Match, int], int]] = {"level1": level1, "level2": level2, "level3": level3, "level4": level4}
