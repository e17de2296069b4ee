"""How many mined positions players solve: those in which one move alone avoids a proven death (docs/planning.md)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from marl.planning.planned_player import load_player
from marl.planning.positions import Positions, load, solved_by
from opponents.intervals import wilson
from opponents.match import open_player

FILE = Path(__file__).resolve().parent / "data" / "positions.npz"
PLAYERS = ("champion", "plan:champion", "level4", "territory")


def measure_players(players: Sequence[str] | None, file: str | None, device: str) -> Iterator[dict[str, Any]]:
    """One row for each player: how many positions it solves, and the rate with its 95 % interval."""
    positions = load(file or FILE)
    names = players or PLAYERS
    for name in names:  # a mistake in a name is told before the first row
        with ExitStack() as opened:
            open_player(name, opened, load_player)
    return (_measure_player(name, positions, device) for name in names)


def _measure_player(name: str, positions: Positions, device: str) -> dict[str, Any]:
    with ExitStack() as opened:
        solved = int(solved_by(open_player(name, opened, load_player), positions, device).sum())
    count = len(positions.states)
    low, high = wilson(solved, count)
    rates = {"rate": solved / count, "rate_low": low, "rate_high": high}
    return {"player": name, "solved": solved, "positions": count, **rates}
