"""CSV files for spreadsheets: rows of a league and of a report, and texts that strangers wrote (names, messages)."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.cli.wording import in_one_line

if TYPE_CHECKING:
    from marl.analysis.groups import RunGroup
    from opponents.round_robin import Table

FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute
BYTE_ORDER_MARK = "\ufeff"  # without it Excel reads Chinese as something else
LEAGUE_COLUMNS = ("place", "name", "rating", "rating_low", "rating_high", "matches", "points")
CONDUCT = ("errors", "forfeits", "mean_ms", "longest_ms")
REPORT_COLUMNS = (
    "group", "algo", "seed", "run", "opponent", "evaluation", "is_last", "episode", "env_steps", "seconds",
    "win_rate", "win_rate_low", "win_rate_high",
)  # fmt: skip


def write_spreadsheet(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a CSV file as a whole (UTF-8 with a byte order mark); a value that a row lacks, or None, is empty."""
    from arena.files import write_user_file  # loads the arena, which help does without

    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_cell(column) for column in columns])
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_user_file(path, BYTE_ORDER_MARK + text.getvalue())


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if not isinstance(value, str):
        return value
    line = in_one_line(value)
    return f"'{line}" if line.startswith(FORMULA) else line


def league_rows(table: "Table") -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and the rows of a league, best player first; points are shares, of all matches and against each."""
    order, points = table.order(), table.points
    against = {j: f"against {table.names[j]}" for j in order}
    rows = []
    for place, i in enumerate(order, start=1):
        rating, margin, matches = float(table.ratings[i]), float(table.margins[i]), int(table.played[i].sum())
        taken = float((table.wins[i] + table.draws[i] / 2).sum())
        row = {"place": place, "name": table.names[i], "matches": matches, "points": taken / matches}
        row |= {"rating": rating, "rating_low": rating - margin, "rating_high": rating + margin}
        rows.append(row | asdict(table.conduct[i]) | {against[j]: float(points[i, j]) for j in order if j != i})
    return [*LEAGUE_COLUMNS, *CONDUCT, *against.values()], rows


def report_rows(groups: Sequence["RunGroup"], opponents: Sequence[str]) -> list[dict[str, Any]]:
    """The evaluations behind a report, one row for each run, opponent and evaluation. Intervals: of its matches."""
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
                    rows.append(dict(zip(REPORT_COLUMNS, values, strict=True)))
    return rows
