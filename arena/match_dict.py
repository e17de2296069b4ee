"""Converts a match between its row of bytes (rules.py) and a dictionary that people and files can read.

{"turn": 0.., "snakes": [[[row, column], ...] x 6, head first], "directions": [0-3 x 6], "beans": [[row, column], ...]}
Replay files, recorded games and BatchArena.get_match / set_match all use it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena.errors import ArenaError, whole_number
from arena.rules import (
    BEAN,
    BEAN_COUNT,
    BEANS,
    BEANS_MAX,
    BOARD,
    COLUMNS,
    DIRECTION,
    ENTERED,
    HEAD,
    LENGTH,
    LINK,
    MATCH_BYTES,
    OVER,
    ROWS,
    SNAKE,
    SNAKES,
    SPARE,
    START_LENGTH,
    TAIL,
    TEAM,
    TURN,
    TURNS,
    is_over,
    neighbour,
)


def gains(match: dict[str, Any]) -> list[int]:
    """The score of each snake: its length minus the length at the start."""
    return [len(body) - START_LENGTH for body in match["snakes"]]


def team_scores(match: dict[str, Any]) -> tuple[int, int]:
    """The scores of red and blue: the sums of their snakes' gains."""
    of_snakes = gains(match)
    return sum(of_snakes[:TEAM]), sum(of_snakes[TEAM:])


def to_dict(match: np.ndarray) -> dict[str, Any]:
    """The dictionary of a match, given as its row of bytes."""
    snakes = []
    for snake in range(SNAKES):
        cell = int(match[TAIL + snake])
        body = []
        for _ in range(int(match[LENGTH + snake])):
            body.append(_place(int(match[ENTERED + cell]) if cell >= SPARE else cell))
            cell = int(match[LINK + cell])
        snakes.append(body[::-1])
    return {
        "turn": int(match[TURN]),
        "snakes": snakes,
        "directions": [int(d) for d in match[DIRECTION : DIRECTION + SNAKES]],
        "beans": [_place(int(cell)) for cell in match[BEANS : BEANS + int(match[BEAN_COUNT])]],
    }


def from_dict(source: dict[str, Any]) -> np.ndarray:
    """The row of bytes of a match, given as a dictionary; ArenaError if no match can look like that.

    Bodies with gaps are accepted: a respawned snake can have one, and recorded cases contain more. A cell shared by two
    tails, which recorded cases also contain, is accepted if both tails are sure to leave it on the next turn: no bean
    is beside either head. The second tail is then stored on a spare cell.
    """
    if not isinstance(source, dict) or set(source) != {"turn", "snakes", "directions", "beans"}:
        keys = sorted(map(str, source)) if isinstance(source, dict) else type(source).__name__
        raise ArenaError(f"match: need the keys turn, snakes, directions, beans; got {keys}")
    turn = _integer(source["turn"], TURNS, "turn")
    snakes = _list(source["snakes"], "snakes", SNAKES)
    directions = _list(source["directions"], "directions", SNAKES)
    beans = _list(source["beans"], "beans")
    if len(beans) > BEANS_MAX:
        raise ArenaError(f"match: at most {BEANS_MAX} beans, got {len(beans)}")

    match = np.zeros(MATCH_BYTES, np.uint8)
    match[TURN] = turn
    taken: dict[int, str] = {}
    tails: set[int] = set()
    for snake in range(SNAKES):
        body = _list(snakes[snake], f"snake {snake}")
        if 0 < len(body) < START_LENGTH:
            raise ArenaError(f"match: snake {snake} has length {len(body)}; allowed: 0 or at least {START_LENGTH}")
        match[DIRECTION + snake] = _integer(directions[snake], 3, f"direction of snake {snake}")
        match[LENGTH + snake] = len(body)
        ahead = 0
        for age, place in enumerate(body):
            is_tail = age == len(body) - 1
            cell = _cell(place, f"snake {snake}")
            entered = (turn - age) & 255
            if is_tail and cell in tails:
                cell, entered = SPARE + snake, cell
            else:
                _take(cell, f"snake {snake}", taken)
            match[BOARD + cell] = SNAKE + snake
            match[ENTERED + cell] = entered
            match[LINK + cell] = ahead
            ahead = cell
            if age == 0:
                match[HEAD + snake] = cell
            if is_tail:
                match[TAIL + snake] = cell
                tails.add(cell)
    for i, place in enumerate(beans):
        cell = _cell(place, f"bean {i}")
        _take(cell, f"bean {i}", taken)
        match[BOARD + cell] = BEAN
        match[BEANS + i] = cell
    match[BEAN_COUNT] = len(beans)
    for snake in range(SNAKES):
        if match[TAIL + snake] >= SPARE:
            _check_shared_tail(match, snake)
    match[OVER] = is_over(match)
    return match


def _check_shared_tail(match: np.ndarray, snake: int) -> None:
    cell = int(match[ENTERED + SPARE + snake])
    other = int(match[BOARD + cell]) - SNAKE
    for owner in (snake, other):
        if any(match[BOARD + neighbour(int(match[HEAD + owner]), direction)] == BEAN for direction in range(4)):
            raise ArenaError(f"match: snake {snake} and snake {other} both lie on {_place(cell)}")


def _place(cell: int) -> list[int]:
    return [cell // COLUMNS, cell % COLUMNS]


def _list(value: Any, what: str, count: int | None = None) -> Sequence:
    if not isinstance(value, (list, tuple)) or (count is not None and len(value) != count):
        got = f"{len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__
        raise ArenaError(f"match: {what}: need a list{f' of {count}' if count else ''}, got {got}")
    return value


def _integer(value: Any, most: int, what: str) -> int:
    return whole_number(value, f"match: {what}", 0, most, f"0 to {most}")


def _cell(place: Any, what: str) -> int:
    if not isinstance(place, (list, tuple)) or len(place) != 2:
        raise ArenaError(f"match: {what}: {place!r} is not [row, column]")
    return _integer(place[0], ROWS - 1, f"row of {what}") * COLUMNS + _integer(
        place[1], COLUMNS - 1, f"column of {what}"
    )


def _take(cell: int, what: str, taken: dict[int, str]) -> None:
    if cell in taken:
        raise ArenaError(f"match: {what} and {taken[cell]} both lie on {_place(cell)}")
    taken[cell] = what
