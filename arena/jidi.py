"""The observation that the Jidi competition passes to a controller: its own dictionary of a match."""

from collections.abc import Sequence
from typing import Any

from arena.errors import ArenaError
from arena.rules import COLUMNS, ROWS, SNAKES

DIRECTION_NAMES = ("up", "down", "left", "right")
_NAMES = dict(enumerate(DIRECTION_NAMES)) | {name: name for name in DIRECTION_NAMES}
BEAN_KEY = 1
FIRST_SNAKE_KEY = 2


def jidi_observation(match: dict[str, Any], snake: int, last_directions: Sequence[int | str] | None) -> dict[Any, Any]:
    """The competition's observation of one snake, in new lists.

    match: a match dictionary (match_dict.py). last_directions: the directions before the last turn (the competition
    shows them one turn late), as numbers or names; None at the start of a match.
    """
    if snake not in range(SNAKES):
        raise ArenaError(f"snake is {snake!r}; allowed: 0 to {SNAKES - 1}")
    names = None
    if last_directions is not None:
        names = [_NAMES.get(direction) for direction in last_directions]
        if len(names) != SNAKES or None in names:
            raise ArenaError(
                f"last_directions are {last_directions!r}; need None or {SNAKES} numbers from 0 to 3 or names"
            )
    observation: dict[Any, Any] = {BEAN_KEY: _copied(match["beans"])}
    for i, body in enumerate(match["snakes"]):
        observation[FIRST_SNAKE_KEY + i] = _copied(body)
    observation["board_width"] = COLUMNS
    observation["board_height"] = ROWS
    observation["last_direction"] = names
    observation["controlled_snake_index"] = FIRST_SNAKE_KEY + int(snake)
    return observation


def _copied(places: list[list[int]]) -> list[list[int]]:
    return [[int(row), int(column)] for row, column in places]
