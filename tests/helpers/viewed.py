"""Matches for the tests of pictures and pages."""

from pathlib import Path

import numpy as np

from arena import jidi_log
from arena.replay import Replay, read

# 200 turns between two strong teams, with snakes of up to 29 cells: its files are about as large as files get.
LONG = Path(__file__).resolve().parent.parent / "data" / "long_match.jsonl"


def long_match() -> Replay:
    return read(LONG)


def wild_match(turns: int, seed: int = 5, red: str = "red", blue: str = "blue") -> Replay:
    """Random moves: reversals, many deaths, respawned bodies with gaps."""
    actions = np.random.default_rng(seed).integers(0, 4, (turns, 6))
    return Replay.from_actions(seed, 0, None, actions.tolist(), red=red, blue=blue)


def log_of(match: Replay, folder: Path) -> jidi_log.JidiLog:
    """The same match as a competition log."""
    jidi_log.write_log(folder / "match.json", match)
    return jidi_log.read_log(folder / "match.json")
