"""Why snakes died: what they ran into, what it cost, and since when there was no way out.

A snake has no safe move if each of its actions (a reversal is none) is a dead end by dangers.py: alone among snakes
that stand still, it would run into a body within 8 turns whatever it played. It was boxed in since turn N if neither
the position after turn N nor any later one up to its death had a safe move.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from arena.dangers import is_dead_end
from arena.rules import ACTIONS, BOARD, DIRECTION, HEAD, LENGTH, SNAKE, SNAKES, START_LENGTH, TAIL, TEAM, neighbour

OWN_BODY, MATE_BODY, FOE_BODY = "own body", "mate's body", "foe's body"
MATE_HEAD, FOE_HEAD = "mate's head", "foe's head"
REVERSAL = "reversal"  # the game drew the last move at random; no file records which
UNKNOWN = "unknown"  # met a head whose own last move was drawn like that
CAUSES = (FOE_BODY, FOE_HEAD, MATE_BODY, MATE_HEAD, OWN_BODY, REVERSAL, UNKNOWN)


class PlayedTurn(Protocol):
    """What is known of a turn beside the positions before and after it; a viewer's Turn is one."""

    @property
    def actions(self) -> Sequence[int] | None: ...  # None if they are not recorded
    @property
    def ate(self) -> Collection[int]: ...
    @property
    def died(self) -> Collection[int]: ...


class Death(NamedTuple):
    """The death of a snake."""

    turn: int  # index of the position after it
    snake: int
    length: int  # in the position before
    cause: str  # one of CAUSES
    other: int | None  # the snake that it ran into, itself included; None if that is not known
    other_length: int  # in the position before; 0 if it is not known
    boxed_since: int | None  # index of the first position of those without a safe move; None: it had one until the end

    @property
    def lost(self) -> int:
        """What the team's score lost."""
        return self.length - START_LENGTH


def find_deaths(
    turns: Sequence[PlayedTurn], position: Callable[[int], np.ndarray], snakes: Collection[int] = range(SNAKES)
) -> list[Death]:
    """The deaths of these snakes, in order.

    turns[k] led from position k - 1 to position k, a match's row of bytes (rules.py); turns[0] is the start.
    """
    deaths = []
    begun = [0] * SNAKES  # index of the position in which a body was new
    for index in range(1, len(turns)):
        for snake in turns[index].died:
            if snake in snakes:
                before, after = position(index - 1), position(index)
                cause, other = cause_of_death(before, after, turns[index], snake)
                length = int(before[LENGTH + snake])
                other_length = 0 if other is None else int(before[LENGTH + other])
                since = boxed_since(position, snake, index - 1, begun[snake])
                deaths.append(Death(index, snake, length, cause, other, other_length, since))
            begun[snake] = index
    return deaths


def boxed_since(position: Callable[[int], np.ndarray], snake: int, last: int, first: int) -> int | None:
    """The first of the positions up to `last` that have, one after the other, no safe move; None if `last` has one."""
    index = last
    while index >= first and not has_safe_move(position(index), snake):
        index -= 1
    return None if index == last else index + 1


def has_safe_move(match: np.ndarray, snake: int) -> bool:
    """Whether some action of a snake is no dead end."""
    reversal = int(match[DIRECTION + snake]) ^ 1
    return any(action != reversal and not is_dead_end(match, snake, action) for action in range(ACTIONS))


def cause_of_death(before: np.ndarray, after: np.ndarray, turn: PlayedTurn, snake: int) -> tuple[str, int | None]:
    """What a snake that died on this turn ran into: one of CAUSES, and whose head or body it was."""
    direction = int(before[DIRECTION + snake])
    if turn.actions is not None and turn.actions[snake] == direction ^ 1:
        return REVERSAL, None
    cell = neighbour(int(before[HEAD + snake]), direction if turn.actions is None else turn.actions[snake])
    for other in range(SNAKES):
        if other == snake or not before[LENGTH + other]:
            continue
        head = _moved_head(before, after, turn, other)
        swapped = cell == before[HEAD + other] and head == before[HEAD + snake]
        if head == cell or swapped:
            return MATE_HEAD if other // TEAM == snake // TEAM else FOE_HEAD, other
    other = int(before[BOARD + cell]) - SNAKE
    # A tail that leaves its cell on this turn is no obstacle, unless its snake eats.
    if 0 <= other < SNAKES and (cell != before[TAIL + other] or other in turn.ate):
        return OWN_BODY if other == snake else MATE_BODY if other // TEAM == snake // TEAM else FOE_BODY, other
    return UNKNOWN, None


def _moved_head(before: np.ndarray, after: np.ndarray, turn: PlayedTurn, snake: int) -> int | None:
    """The cell that a head moved to; None where no file records it."""
    if snake not in turn.died:
        return int(after[HEAD + snake])
    direction = int(before[DIRECTION + snake])
    action = direction if turn.actions is None else turn.actions[snake]
    return None if action == direction ^ 1 else neighbour(int(before[HEAD + snake]), action)


class DecisiveTurn(NamedTuple):
    """The turn that cost a team the match, as far as one turn did."""

    turn: int  # index of the position after it
    weight: int  # by how much the lead fell, less what the team was behind already


def decisive_turn(leads: Sequence[int], deaths: Iterable[Death]) -> DecisiveTurn | None:
    """Of the turns on which a team lost a snake and its lead fell, the one with the largest weight; of equals the last.

    leads: of the team, by position; deaths: of the team. A fall weighs less if the team was far behind before it.
    """
    falls = {death.turn: leads[death.turn - 1] - leads[death.turn] for death in deaths}
    weights = [(fall + min(0, leads[turn - 1]), turn) for turn, fall in falls.items() if fall > 0]
    if not weights:
        return None
    weight, turn = max(weights)
    return DecisiveTurn(turn, weight)
