"""Cross-play: matches between the final teams of runs, all runs of a group against all runs of every other group."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from marl.commands.report_groups import Group
from marl.commands.report_results import interval
from marl.commands.runs_summary import CHECKPOINTS, RunSummary
from marl.errors import UserError
from marl.statistics import Estimate, estimate_pair_mean
from opponents.intervals import wilson

SEED = 3_000_017  # of the matches; those of trainings and evaluations have others


def final_team(run: RunSummary) -> Path:
    """The last checkpoint of a run, as a player."""
    return run.folder / CHECKPOINTS / "last"


def cross_play(
    groups: Sequence[Group], matches: int, device: str, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Share of the points that row takes from column, with intervals over the runs of both.

    matches: for a pair of groups, split evenly over the pairs of their runs; at least two for each, one on each side.
    """
    from marl.planning.planned_player import load_player
    from opponents.match import choose_device, open_player, play

    if len(groups) < 2:
        raise UserError("--cross_play needs runs of two configurations or more")
    cells: list[list[Any]] = [[None] * len(groups) for _ in groups]
    pairs = list(combinations(range(len(groups)), 2))
    total = sum(len(groups[i].runs) * len(groups[j].runs) for i, j in pairs)
    done = 0
    with ExitStack() as opened:
        teams = [[open_player(str(final_team(run)), opened, load_player) for run in group.runs] for group in groups]
        device = choose_device(device, [team for group in teams for team in group])
        for i, j in pairs:
            each = max(2, 2 * round(matches / len(teams[i]) / len(teams[j]) / 2))
            points = np.zeros((len(teams[i]), len(teams[j])))
            for a, home in enumerate(teams[i]):
                for b, away in enumerate(teams[j]):
                    points[a, b] = play(home, away, each, device, SEED).points
                    done += 1
                    if progress is not None:
                        progress(done / total)
            estimate = estimate_pair_mean(points)
            if points.size == 1:  # one seed each: the interval is that of the matches
                estimate = Estimate(estimate.value, *wilson(estimate.value * each, each))
            cells[i][j] = interval(estimate) | {"matches": each * points.size}
            mirrored = Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
            cells[j][i] = interval(mirrored) | {"matches": each * points.size}
    return {"cells": cells, "device": device}
