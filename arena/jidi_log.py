"""The Jidi competition's log of a match: one JSON document with the positions before and after every step.

Read completely enough to watch a recorded competition match. A log does not number its turns (they count from 0 here),
has no team names, and shows a direction one step late.
"""

import ast
import json
import os
from dataclasses import dataclass
from typing import Any

from arena import match_dict, replay
from arena.errors import ArenaError
from arena.jidi import DIRECTION_NAMES
from arena.replay import Replay
from arena.rules import COLUMNS, DOWN, LEFT, RIGHT, ROWS, SNAKES, TURNS, UP

# Letters of a Python literal in a log. A literal holds one state; a longer one is refused to save the parser's time.
LITERAL_MAX = 100_000


@dataclass(frozen=True)
class JidiLog:
    """A competition match for viewers, with states(), red and blue like a Replay."""

    positions: list[dict[str, Any]]
    actions: list[list[int] | None]  # None where the log's joint_action cannot be read
    red: str = "red"
    blue: str = "blue"

    def states(self) -> list[dict[str, Any]]:
        """The match dictionary at the start and after every turn."""
        return self.positions


def open_match(path: str | os.PathLike) -> Replay | JidiLog:
    """A match from a replay file (which is verified) or from a competition log."""
    return read_log(path) if b'"init_info"' in replay.read_bytes(path) else replay.read(path)


def read_log(path: str | os.PathLike) -> JidiLog:
    """Read a competition log; ArenaError names the step that cannot be read."""
    try:
        return _log(replay.read_bytes(path))
    except ArenaError as error:
        text = str(error).removeprefix(f"{path}: ")
        raise ArenaError(f"{path}: {text[: replay.MESSAGE_MAX]}") from None
    except RecursionError:
        raise ArenaError(f"{path}: nested too deeply; need a competition log, one JSON document") from None
    except Exception as error:  # of any kind that a file of a stranger brings about
        raise ArenaError(
            f"{path}: damaged ({type(error).__name__}); need a competition log, one JSON document"
        ) from None


def _log(data: bytes) -> JidiLog:
    try:
        document = json.loads(data.decode())
    except UnicodeDecodeError:
        raise ArenaError("not UTF-8 text; need a competition log, one JSON document") from None
    except ValueError as error:
        where = f" (line {error.lineno}: {error.msg})" if isinstance(error, json.JSONDecodeError) else ""
        raise ArenaError(f"not JSON{where}; need a competition log, one JSON document") from None
    if not isinstance(document, dict) or not {"init_info", "steps"} <= document.keys():
        raise ArenaError("no init_info and steps; need a competition log")
    for key, ours in (("n_player", SNAKES), ("board_height", ROWS), ("board_width", COLUMNS)):
        if document.get(key, ours) != ours:
            raise ArenaError(f"{key} is {document[key]!r}; need a match of snakes_3v3, where it is {ours}")
    steps = document["steps"]
    if not isinstance(steps, list) or len(steps) > TURNS:
        raise ArenaError(f"steps: need a list of at most {TURNS}")

    actions: list[list[int] | None] = []
    states = [_state(_dictionary(document, "init_info", ""), None, None, "init_info")]
    for number, step in enumerate(steps):
        where = f"steps[{number}]"
        if not isinstance(step, dict):
            raise ArenaError(f"{where} is of type {type(step).__name__}; need a dictionary")
        if step.get("info_before"):
            before = _dictionary(step, "info_before", where)
            if "directions" in before:
                states[-1]["directions"] = _directions(before, f"{where}.info_before")
        actions.append(_actions(step.get("joint_action")))
        after = _dictionary(step, "info_after", where)
        states.append(_state(after, states[-1], actions[-1], f"{where}.info_after"))
    return JidiLog(states, actions)


def _state(
    info: dict[str, Any], before: dict[str, Any] | None, actions: list[int] | None, where: str
) -> dict[str, Any]:
    """The match dictionary of an init_info or info_after; `before` is None for the first state."""
    if "snakes_position" not in info:
        raise ArenaError(f"{where} has no snakes_position")
    snakes = _decoded(info["snakes_position"], f"{where}.snakes_position")
    beans = _decoded(info.get("beans_position"), f"{where}.beans_position")
    state = {"turn": before["turn"] + 1 if before else 0, "snakes": snakes, "directions": [UP] * SNAKES}
    try:
        state = match_dict.to_dict(match_dict.from_dict(state | {"beans": [] if beans is None else beans}))
    except ArenaError as error:
        raise ArenaError(f"{where}: {error}") from None
    if beans is None and before:
        # Not recorded: the beans of the turn before, without those that a snake now covers.
        covered = [cell for body in state["snakes"] for cell in body]
        state["beans"] = [bean for bean in before["beans"] if bean not in covered]
    if "directions" in info:
        state["directions"] = _directions(info, where)
    else:
        hit = _decoded(info.get("hit"), f"{where}.hit")
        state["directions"] = [_derived(snake, state, before, actions, hit) for snake in range(SNAKES)]
    return state


def _derived(
    snake: int, state: dict[str, Any], before: dict[str, Any] | None, actions: list[int] | None, hit: Any
) -> int:
    """The direction of a snake if the log does not record it."""
    body = state["snakes"][snake]
    if not body:  # no room to respawn: keep the direction of the last move
        last = before["directions"][snake] if before else UP
        return actions[snake] if actions and actions[snake] != last ^ 1 else last
    (row, column), (neck_row, neck_column) = body[:2]
    if isinstance(hit, list) and len(hit) == SNAKES:
        respawned = bool(hit[snake])
    else:
        respawned = before is not None and [body[1]] != before["snakes"][snake][:1]
    down, right = row - neck_row, column - neck_column
    if not respawned:  # around the torus; a respawn compares the plain numbers instead (a quirk of the original rules)
        down = down if abs(down) < ROWS - 1 else -down
        right = right if abs(right) < COLUMNS - 1 else -right
    if down == 0:
        return RIGHT if right > 0 else LEFT
    return DOWN if down > 0 else UP


def _directions(info: dict[str, Any], where: str) -> list[int]:
    names = _decoded(info["directions"], f"{where}.directions")
    if not isinstance(names, list) or len(names) != SNAKES or any(name not in DIRECTION_NAMES for name in names):
        raise ArenaError(f"{where}.directions is {names!r}; need six of {', '.join(DIRECTION_NAMES)}")
    return [DIRECTION_NAMES.index(name) for name in names]


def _actions(joint: Any) -> list[int] | None:
    """Six actions from six one-hot lists, each optionally inside another list; None for anything else."""
    try:
        joint = _decoded(joint, "joint_action")
    except ArenaError:
        return None
    actions = []
    for part in joint if isinstance(joint, list) else ():
        one_hot = part[0] if isinstance(part, list) and len(part) == 1 else part
        if not isinstance(one_hot, list) or len(one_hot) != len(DIRECTION_NAMES) or 1 not in one_hot:
            return None
        actions.append(one_hot.index(1))
    return actions if len(actions) == SNAKES else None


def _dictionary(parent: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    if key not in parent:
        raise ArenaError(f"{where} has no {key}")
    where = f"{where}.{key}".removeprefix(".")
    value = _decoded(parent[key], where)
    if not isinstance(value, dict):
        raise ArenaError(f"{where} is of type {type(value).__name__}; need a dictionary")
    return value


def _decoded(value: Any, where: str) -> Any:
    """A value that logs store as it is, as JSON text or as Python text. Only literals are read: no code is run."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass  # not JSON
    try:
        if len(value) > LITERAL_MAX:
            raise ValueError
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ArenaError(
            f"{where} is the text {value[:60]!r}; need plain lists (no array(...)) in JSON or Python"
        ) from None
