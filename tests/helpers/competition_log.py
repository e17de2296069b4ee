"""Matches as logs of the Jidi competition, with all fields of such a log: what arena/jidi_log.py reads."""

import json
from pathlib import Path
from typing import Any

from arena import match_dict
from arena.jidi import DIRECTION_NAMES, FIRST_SNAKE_KEY
from arena.replay import Replay
from arena.rules import COLUMNS, ROWS, SNAKES


def write_log(path: Path, match: Replay) -> None:
    """Write a replay as a competition log."""
    states = match.states()
    steps = []
    for before, after, turn in zip(states[:-1], states[1:], match.turns, strict=True):
        one_hot = [[[int(action == move) for move in range(4)]] for action in turn["actions"]]
        info_after = _positions(after) | {
            "hit": [int(snake in turn.get("died", ())) for snake in range(SNAKES)],
            "score": match_dict.gains(after),
        }
        # A replay has no time stamps; the competition's viewers only need a number.
        step = {"time": "0", "joint_action": str(one_hot), "info_before": {"directions": _named(before)}}
        steps.append(step | {"info_after": info_after})
    first, scores = states[0], match_dict.gains(states[-1])
    document = {
        "game_name": "snakes_3v3",
        "n_player": SNAKES,
        "board_height": ROWS,
        "board_width": COLUMNS,
        "init_info": _positions(first) | {"directions": _named(first)},
        "start_time": "0",
        "mode": "terminal",
        "seed": match.seed,
        "steps": steps,
        "winner": scores.index(max(scores)) + FIRST_SNAKE_KEY,
        "winner_information": "",
        # The sum of rewards: a snake without room to respawn has lost all length above its first three cells.
        "n_return": [max(score, 0) - begun for score, begun in zip(scores, match_dict.gains(first), strict=True)],
    }
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def _positions(state: dict[str, Any]) -> dict[str, Any]:
    return {"snakes_position": state["snakes"], "beans_position": state["beans"]}


def _named(state: dict[str, Any]) -> list[str]:
    return [DIRECTION_NAMES[direction] for direction in state["directions"]]
