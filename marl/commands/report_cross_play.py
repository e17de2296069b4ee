"""Cross-play: matches between the final teams of runs, all runs of a group against all runs of every other group."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marl.commands.report_groups import Group
from marl.commands.report_results import interval
from marl.commands.runs_summary import CHECKPOINTS, RunSummary
from marl.errors import UserError
from marl.statistics import Estimate, estimate_pair_mean
from opponents.intervals import wilson

SEED = 3_000_017  # of the matches; those of trainings and evaluations have others


class _Row(NamedTuple):
    """One team of a group against all teams of another group."""

    home: str
    away: tuple[str, ...]
    matches: int  # against each of them
    device: str
    seed: int


def final_team(run: RunSummary) -> Path:
    """The last checkpoint of a run, as a player."""
    return run.folder / CHECKPOINTS / "last"


def cross_play(
    groups: Sequence[Group],
    matches: int,
    device: str,
    progress: Callable[[float], None] | None = None,
    side_by_side: int = 1,
) -> dict[str, Any]:
    """Share of the points that row takes from column, with intervals over the runs of both.

    matches: for a pair of groups, split evenly over the pairs of their runs; at least two for each, one on each side.
    side_by_side: processes that play at a time, each with one thread.
    """
    from opponents.match import choose_device

    if len(groups) < 2:
        raise UserError("--cross_play needs runs of two configurations or more")
    device = choose_device(device, [])
    teams = [tuple(str(final_team(run)) for run in group.runs) for group in groups]
    pairs = list(combinations(range(len(groups)), 2))
    each = {(i, j): max(2, 2 * round(matches / len(teams[i]) / len(teams[j]) / 2)) for i, j in pairs}
    rows = [
        _Row(home, teams[j], each[i, j], device, SEED + number)
        for i, j in pairs
        for number, home in enumerate(teams[i])
    ]
    cells: list[list[Any]] = [[None] * len(groups) for _ in groups]
    with _open_map(min(side_by_side, len(rows))) as run:
        played = _told(run(_play_row, rows), len(rows), progress)
        for i, j in pairs:
            points = np.array([next(played) for _ in teams[i]])
            estimate = estimate_pair_mean(points)
            if points.size == 1:  # one seed each: the interval is that of the matches
                estimate = Estimate(estimate.value, *wilson(estimate.value * each[i, j], each[i, j]))
            cells[i][j] = interval(estimate) | {"matches": each[i, j] * points.size}
            mirrored = Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
            cells[j][i] = interval(mirrored) | {"matches": each[i, j] * points.size}
    return {"cells": cells, "device": device}


def _play_row(row: _Row) -> list[float]:
    """Points of the home team against each of the others."""
    from marl.planning.planned_player import load_player
    from opponents.match import open_player, play

    with ExitStack() as opened:
        home = open_player(row.home, opened, load_player)
        others = [open_player(name, opened, load_player) for name in row.away]
        return [play(home, away, row.matches, row.device, row.seed).points for away in others]


@contextmanager
def _open_map(processes: int) -> Iterator[Callable[..., Iterable[list[float]]]]:
    """`map` in this process, or in several processes."""
    if processes < 2:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from marl.compute.threads import use_threads

    # Not forked: this process may have threads of torch already.
    with ProcessPoolExecutor(processes, get_context("spawn"), use_threads, (1,)) as pool:
        yield pool.map


def _told(
    results: Iterable[list[float]], number: int, progress: Callable[[float], None] | None
) -> Iterator[list[float]]:
    for done, result in enumerate(results, start=1):
        if progress is not None:
            progress(done / number)
        yield result
