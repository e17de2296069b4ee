"""The evaluations behind a report as lines of a spreadsheet: one for each evaluation of each run by each opponent."""

from collections.abc import Sequence
from typing import Any

from marl.analysis.groups import RunGroup

COLUMNS = (
    "group", "algo", "seed", "run", "opponent", "evaluation", "is_last", "episode", "env_steps", "seconds",
    "win_rate", "win_rate_low", "win_rate_high",
)  # fmt: skip


def report_rows(groups: Sequence[RunGroup], opponents: Sequence[str]) -> list[dict[str, Any]]:
    """Values by column. Intervals are those of the matches of one evaluation."""
    rows = []
    for group in groups:
        for run in group.runs:
            for opponent in opponents:
                steps, seconds = (run.curve(opponent, by) for by in ("steps", "seconds"))
                last = len(run.evaluations) - 1
                for i, point in enumerate(run.evaluations):
                    low, high = point.intervals[opponent]
                    values = (
                        group.name, run.algo, run.seed, str(run.folder), opponent, i, int(i == last), point.episode,
                        round(steps[i][0]), round(seconds[i][0], 1), point.rates[opponent], low, high,
                    )  # fmt: skip
                    rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
