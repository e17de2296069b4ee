"""How many mined positions players solve: those in which one move alone avoids a proven death (docs/planning.md)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from marl.planning.planned_player import load_player
from marl.planning.positions import load, solved_by
from opponents.match import open_player, wilson

FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "positions.npz"
PLAYERS = ("champion", "plan:champion", "level4", "territory")


def measure_players(players: Sequence[str] | None, file: str | None, device: str) -> Iterator[dict[str, Any]]:
    """One row for each player: how many positions it solves, and the rate with its 95 % interval."""
    positions = load(file or FILE)
    count = len(positions.states)
    for name in players or PLAYERS:
        with ExitStack() as opened:
            solved = int(solved_by(open_player(name, opened, load_player), positions, device).sum())
        low, high = wilson(solved, count)
        yield {
            "player": name,
            "solved": solved,
            "positions": count,
            "rate": solved / count,
            "rate_low": low,
            "rate_high": high,
        }
