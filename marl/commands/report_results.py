"""The numbers of a report: results with intervals, learning curves, probabilities of improvement, cross-play."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from marl.commands.report_groups import ALL, Group, differing_settings
from marl.commands.runs_summary import RunSummary
from marl.statistics import Estimate, estimate_improvement, estimate_iqm
from marl.wording import count

AXES = ("episodes", "steps", "seconds")
CURVE_RESAMPLES = 1_000  # of the bootstrap, for each point of a curve
DIGITS = 6  # after the point, of the numbers in a document


def collect(groups: Sequence[Group], opponents: Sequence[str]) -> dict[str, Any]:
    """All numbers of a report as one JSON document. A number without an interval has null as its ends."""
    tasks = tasks_of(opponents)
    finals = [group.final(opponents) for group in groups]
    return {
        "opponents": list(opponents),
        "tasks": list(tasks),
        "groups": [_about_group(group, opponents) for group in groups],
        "improvement": [
            [
                None if i == j else table_cell(estimate_improvement(mine, other), probability)
                for j, other in enumerate(finals)
            ]
            for i, mine in enumerate(finals)
        ],
        "settings": differing_settings(groups),
        "machine": _machine(groups),
        "cross_play": None,
    }


def tasks_of(opponents: Sequence[str]) -> dict[str, list[str]]:
    """What is compared, by name: each opponent, and with several of them all together."""
    return {name: [name] for name in opponents} | ({ALL: list(opponents)} if len(opponents) > 1 else {})


def interval(estimate: Estimate) -> dict[str, float | None]:
    """An estimate for JSON."""
    return {name: None if math.isnan(value) else round(value, DIGITS) for name, value in estimate._asdict().items()}


def table_cell(estimate: Estimate, text: Callable[[float], str]) -> dict[str, Any]:
    """An estimate with its texts: terminal and page show these, so that both round alike."""
    value, low, high = (round(number, DIGITS) for number in estimate)
    ends = None if math.isnan(low) else [text(low), text(high)]
    return {**interval(estimate), "text": text(value), "ends": ends}


def percent(share: float) -> str:
    """A share in percent, without the sign."""
    return f"{100 * share:.1f}"


def probability(value: float) -> str:
    return f"{value:.2f}"


def _about_group(group: Group, opponents: Sequence[str]) -> dict[str, Any]:
    return {
        "name": group.name,
        "algo": group.runs[0].algo,
        "seeds": group.seeds,
        "runs": [str(run.folder) for run in group.runs],
        "episodes": float(np.median([run.episodes for run in group.runs])),
        "env_steps": float(np.median([run.env_steps for run in group.runs])),
        "seconds": float(np.median([run.seconds for run in group.runs])),
        "final": {name: _final(group, names) for name, names in tasks_of(opponents).items()},
        "axes": {by: group.axis(opponents[0], by) for by in AXES},
        "curves": {name: _curve(group, names) for name, names in tasks_of(opponents).items()},
    }


def _final(group: Group, opponents: list[str]) -> dict[str, Any]:
    """Interquartile mean of the last win rates of all seeds against all these opponents, and each seed's plain mean.

    With one run and one opponent the interval is that of its matches.
    """
    scores = group.final(opponents)
    estimate = estimate_iqm(scores)
    if len(scores) == 1 and len(opponents) == 1:
        low, high = group.runs[0].evaluations[-1].intervals[opponents[0]]
        estimate = Estimate(estimate.value, low, high)
    each = [percent(mean) for mean in scores.mean(1).round(DIGITS).tolist()]
    return table_cell(estimate, percent) | {"each_text": each}


def _curve(group: Group, opponents: list[str]) -> dict[str, Any]:
    rates = group.curve(opponents)
    points = [interval(estimate_iqm(scores, CURVE_RESAMPLES)) for scores in rates]
    curve: dict[str, Any] = {name: [point[name] for point in points] for name in ("value", "low", "high")}
    return curve | {"each": rates.mean(2).T.round(DIGITS).tolist()}


def _machine(groups: Sequence[Group]) -> list[str]:
    """The machines of the runs, in words, each once."""
    return list(dict.fromkeys(_machine_of(run) for group in groups for run in group.runs))


def _machine_of(run: RunSummary) -> str:
    processor, versions = (_mapping(run.about.get(name)) for name in ("processor", "versions"))
    ranks = run.about.get("world_size")
    words = [f"{processor['model']}, {count(processor.get('cores', 0), 'core')}"] if "model" in processor else []
    words += [f"{ranks} ranks"] if isinstance(ranks, int) and ranks > 1 else []
    words += [f"device {run.config['device']}"] if run.config.get("device") not in (None, "auto") else []
    words += [f"{name} {versions[name]}" for name in ("torch", "numba") if versions.get(name)]
    date = str(run.about.get("started", ""))[:10]
    return ", ".join([*words, *([date] if date else [])]) or "unknown machine"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
