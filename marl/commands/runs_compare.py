"""Several runs side by side: the settings that differ, the results, and the learning curves in one picture."""

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from marl.commands.runs_summary import RunSummary
from marl.commands.runs_text import amount, document, duration, print_rows, size_text
from marl.config.values import as_written
from marl.errors import UserError
from marl.wording import in_one_line

# Settings that say where a run is or how it was begun, not what was trained.
NOT_COMPARED = (
    "run_name", "runs_dir", "resume", "load_model", "load_model_run", "load_model_run_episode", "config_version",
)  # fmt: skip
CELL_MAX = 30  # letters


def compare(runs: list[RunSummary], png: Path | None, by: str, as_json: bool) -> int:
    """Print the comparison, and draw the curves if a file is given; returns the exit code."""
    if png is not None:
        _draw(runs, png, by)
    differing = differing_settings(runs)
    if as_json:
        print(json.dumps({"runs": [document(run) for run in runs], "settings": differing}, indent=2, default=str))
        return 0
    labels = _labels(len(runs))
    for label, run in zip(labels, runs, strict=True):
        print(f"{label}  {in_one_line(str(run.folder))} ({run.state})")
    print("\nsettings that differ")
    if differing:
        rows = [("", *labels), *((path, *map(_cell, values)) for path, values in differing.items())]
        print_rows([(f"  {row[0]}", *row[1:]) for row in rows])
    else:
        print("  none")
    print("\nresults")
    print_rows([(f"  {row[0]}", *row[1:]) for row in [("", *labels), *_results(runs)]])
    if png is not None:
        print(f"\npicture: {png}")
    return 0


def differing_settings(runs: list[RunSummary]) -> dict[str, list[Any]]:
    """Path -> its value in each run, for the settings that all runs have and that are not the same in all."""
    settings = [run.settings() for run in runs]
    paths = [path for path in settings[0] if path not in NOT_COMPARED and all(path in each for each in settings)]
    found = {path: [each[path] for each in settings] for path in paths}
    return {path: values for path, values in found.items() if any(value != values[0] for value in values)}


def _results(runs: list[RunSummary]) -> list[tuple[str, ...]]:
    names = dict.fromkeys(name for run in runs for name in run.opponents)
    rows = [
        ("episodes", *(f"{run.episodes:,}" for run in runs)),
        ("env steps", *(amount(run.env_steps) for run in runs)),
        ("trained", *(duration(run.seconds) for run in runs)),
        ("on disk", *(size_text(run.size) for run in runs)),
        ("best at episode", *(f"{run.best.episode:,}" if run.best else "-" for run in runs)),
        ("points there", *(f"{run.best.points:.1%}" if run.best else "-" for run in runs)),
    ]
    return rows + [(f"won against {name}", *(_rate(run, name) for run in runs)) for name in names]


def _rate(run: RunSummary, opponent: str) -> str:
    if run.best is None or opponent not in run.best.rates:
        return "-"
    rate, (low, high) = run.best.rates[opponent], run.best.intervals[opponent]
    return f"{rate:.1%} ({100 * low:.0f}-{100 * high:.0f})"


def _cell(value: Any) -> str:
    text = as_written(tuple(value) if isinstance(value, list) else value)
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 3] + "..."


def _labels(number: int) -> list[str]:
    return [ascii_uppercase[i] if i < len(ascii_uppercase) else str(i + 1) for i in range(number)]


def _draw(runs: list[RunSummary], png: Path, by: str) -> None:
    from marl.pictures.canvas import save_png
    from marl.pictures.run_comparison import Curve, draw

    names = dict.fromkeys(name for run in runs for name in run.opponents)
    panels = {
        name: [Curve(label, run.name, run.curve(name, by)) for label, run in zip(_labels(len(runs)), runs, strict=True)]
        for name in names
    }
    panels = {name: curves for name, curves in panels.items() if any(curve.points for curve in curves)}
    if not panels:
        raise UserError("no curves to draw: none of these runs has been evaluated yet")
    save_png(png, draw(panels, by))
