"""Matches for the tests of pictures and pages."""

from pathlib import Path

import numpy as np

from arena import jidi_log
from arena.replay import Replay, read
from helpers.competition_log import write_log

# 200 turns between two strong teams, with snakes of up to 29 cells: its files are about as large as files get.
LONG = Path(__file__).resolve().parent.parent / "data" / "long_match.jsonl"

# With everything that is hard to draw.
MATCH = {
    "turn": 57,
    "snakes": [
        [[4, 4], [4, 3], [4, 2], [4, 1], [5, 1]],
        [[0, 1], [0, 0], [0, 19], [0, 18]],  # over the edge
        [[7, 7], [8, 7], [6, 7]],  # a gap: the head respawned in the middle
        [[2, 10], [2, 11], [2, 12]],
        [[6, 15], [6, 14], [6, 13]],
        [],  # no room
    ],
    "directions": [3, 3, 0, 2, 3, 0],
    "beans": [[1, 5], [3, 16], [5, 9], [9, 0], [9, 19]],
}


def long_match() -> Replay:
    return read(LONG)


def wild_match(turns: int, seed: int = 5, red: str = "red", blue: str = "blue") -> Replay:
    """Random moves: reversals, many deaths, respawned bodies with gaps."""
    actions = np.random.default_rng(seed).integers(0, 4, (turns, 6))
    return Replay.from_actions(seed, 0, None, actions.tolist(), red=red, blue=blue)


def log_of(match: Replay, folder: Path) -> jidi_log.JidiLog:
    """The same match as a competition log."""
    write_log(folder / "match.json", match)
    return jidi_log.read_log(folder / "match.json")
