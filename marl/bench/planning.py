"""The speed of planning: decisions per second of `plan:champion`, by device, batch size and budget.

A decision is one turn of one team of three snakes. Simulated match-turns per second stand beside it. And how many mined
positions players solve (`bench positions`): those in which one move alone avoids a proven death (docs/planning.md).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
import torch

from arena import BatchArena
from arena.rules import SNAKES, TEAM
from marl.bench.arena import checked_devices
from marl.bench.timing import Row, best_rate
from marl.planning.planned_player import PlannedPlayer, load_player
from marl.planning.planner import CANDIDATES, Budget
from marl.planning.positions import Positions, load, solved_by
from marl.planning.second_turn import DEVIATIONS
from marl.storage.saved_player import load_policy
from opponents.intervals import wilson
from opponents.match import open_player
from opponents.players import Player

CPU_MATCHES = (1, 64)
CUDA_MATCHES = (64, 2048)
BUDGETS = (Budget(1, 1), Budget(8, 1), Budget(8, 2))
FILE = Path(__file__).resolve().parent / "data" / "positions.npz"
PLAYERS = ("champion", "plan:champion", "level4", "territory")


class PlanningBench:
    """The rows of `bench planning`; each is measured when it is requested."""

    def __init__(
        self, device: str | None, matches: list[int] | None, threads: list[int] | None, seconds: float
    ) -> None:
        self._devices, self._threads = checked_devices(device, threads or [numba.config.NUMBA_NUM_THREADS])
        self._matches, self._seconds = matches, seconds
        self._decisions: dict[str, float] = {}

    def facts(self) -> dict[str, Any]:
        """Decisions per second: the rows count simulated match-turns."""
        return {"decisions_per_second": self._decisions}

    def rows(self) -> Iterator[Row]:
        for device in self._devices:
            for matches in self._matches or (CPU_MATCHES if device == "cpu" else CUDA_MATCHES):
                for budget in BUDGETS:
                    yield self._row(device, matches, budget)

    def _row(self, device: str, matches: int, budget: Budget) -> Row:
        player = PlannedPlayer(load_policy("champion"), budget)
        rate = decisions_per_second(player, matches, device, self._seconds)
        what = f"plan={budget.replies}x{budget.turns}:champion"
        self._decisions[f"{device}, {matches} matches, {what}"] = round(rate, 1)
        threads = self._threads[-1] if device == "cpu" else None
        simulated = 2 * CANDIDATES * budget.replies + budget.looked_again * DEVIATIONS
        return Row(device, matches, threads, what, simulated * rate)


def decisions_per_second(player: Player, matches: int, device: str, seconds: float) -> float:
    """Turns of the red team that a player decides, on the first turn of some matches at once."""
    arena = BatchArena(matches, device, seed=1)
    arena.start()
    seats = (torch.arange(matches)[:, None] * SNAKES + torch.arange(TEAM)).flatten().int().to(arena.device)
    moves = torch.zeros(matches, SNAKES, dtype=torch.int8, device=arena.device)
    player.begin(arena, seats)

    def decide(count: int) -> None:
        for _ in range(count):
            player.act(arena, seats, moves)
        if arena.device.type == "cuda":
            torch.cuda.synchronize(arena.device)

    return matches * best_rate(decide, 1, seconds)


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
