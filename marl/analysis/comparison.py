"""Groups of runs compared: results with intervals, learning curves, probabilities of improvement, and
what few seeds can tell; for JSON.

The document of a report holds all numbers of terminal and page. marl-eval's layout is environment -> task -> algorithm
-> run -> step -> metrics: a task is an opponent, an algorithm a group, a run a seed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from marl.analysis.groups import RunGroup, differing_settings
from marl.analysis.runs import RunSummary
from marl.analysis.statistics import Estimate, estimate_improvement, estimate_iqm
from marl.cli.wording import count

ALL = "all opponents"
ENVIRONMENT = "snakes_3v3"  # in marl-eval's layout
AXES = ("episodes", "steps", "seconds")
CURVE_RESAMPLES = 1_000  # of the bootstrap, for each point of a curve
DIGITS = 6  # after the point, of the numbers in a document
ENOUGH = 5  # seeds of a group
# Texts with places for values: the page has them in Chinese, too.
START = "Fewer than {enough} seeds: {few}. It can be said how strong these teams are, "
ADVICE = "train at least {enough} (train --seeds 1-{enough})."
OF_ONE = START + "not how strong another seed of the configuration would be; " + ADVICE
OF_SEVERAL = (
    START + "not that one configuration is better: even if each seed of one beats all of the other, with {a} and {b} "
    "seeds chance alone does that in {chance} % of comparisons; " + ADVICE
)


def collect(groups: Sequence[RunGroup], opponents: Sequence[str]) -> dict[str, Any]:
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
        "settings": differing_settings([group.settings for group in groups]),
        "machine": _machine(groups),
        "cross_play": None,
        "caution": caution(groups),
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


def percent(fraction: float) -> str:
    """A fraction in percent, without the sign."""
    return f"{100 * fraction:.1f}"


def probability(value: float) -> str:
    return f"{value:.2f}"


def _about_group(group: RunGroup, opponents: Sequence[str]) -> dict[str, Any]:
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


def _final(group: RunGroup, opponents: list[str]) -> dict[str, Any]:
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


def _curve(group: RunGroup, opponents: list[str]) -> dict[str, Any]:
    rates = group.curve(opponents)
    points = [interval(estimate_iqm(scores, CURVE_RESAMPLES)) for scores in rates]
    curve: dict[str, Any] = {name: [point[name] for point in points] for name in ("value", "low", "high")}
    return curve | {"each": rates.mean(2).T.round(DIGITS).tolist()}


def marl_eval_document(groups: Sequence[RunGroup], opponents: Sequence[str]) -> dict[str, Any]:
    """The evaluations in marl-eval's layout, which wants equally many runs and steps of all groups (see uneven).

    `step_count` counts env steps; every metric is a list of one number, since an evaluation knows its rates and not its
    single matches; `absolute_metrics` are those of the last one. marl-eval reads the runs of all algorithms by the
    names of the first one's, and refuses commas in the names of algorithms.
    """
    seeds = groups[0].seeds
    by_seed = len(set(seeds)) == len(seeds) and all(group.seeds == seeds for group in groups)

    def runs_of(group: RunGroup, opponent: str) -> dict[str, Any]:
        names = [f"seed_{seed}" if by_seed else f"run_{i}" for i, seed in enumerate(group.seeds, start=1)]
        number = len(group.evaluations[0])
        return {name: _steps(run, opponent, number) for name, run in zip(names, group.runs, strict=True)}

    algorithms = {group.name.replace(",", " "): group for group in groups}
    tasks = {name: {algo: runs_of(group, name) for algo, group in algorithms.items()} for name in opponents}
    return {ENVIRONMENT: tasks}


def uneven(groups: Sequence[RunGroup]) -> str:
    """Why marl-eval would refuse the document: unequal numbers of runs or evaluations; empty if it would not."""
    runs, points = {len(group.runs) for group in groups}, {len(group.evaluations[0]) for group in groups}
    for what, numbers in (("seeds", runs), ("evaluations", points)):
        if len(numbers) > 1:
            return f"groups have different numbers of {what} ({', '.join(map(str, sorted(numbers)))})"
    return ""


def _steps(run: RunSummary, opponent: str, number: int) -> dict[str, Any]:
    rates, times = run.curve(opponent, "steps")[:number], run.curve(opponent, "seconds")[:number]
    steps: dict[str, Any] = {}
    for i, ((env_steps, rate), (seconds, _)) in enumerate(zip(rates, times, strict=True), start=1):
        metrics = {"win_rate": [rate], "elapsed_time": [seconds]}
        steps[f"step_{i}"] = {"step_count": round(env_steps), **metrics}
    return steps | {"absolute_metrics": metrics}


def _machine(groups: Sequence[RunGroup]) -> list[str]:
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


def caution(groups: Sequence[RunGroup]) -> dict[str, Any] | None:
    """What can and cannot be concluded if a group has fewer than five seeds, as a text and its values; or nothing."""
    fewest = sorted((len(set(group.seeds)), group.name) for group in groups)
    if fewest[0][0] >= ENOUGH:
        return None
    few = ", ".join(f"{name} ({number})" for number, name in fewest if number < ENOUGH)
    values: dict[str, Any] = {"enough": ENOUGH, "few": few}
    if len(groups) == 1:
        return {"text": OF_ONE, "values": values}
    (a, _), (b, _) = fewest[:2]
    by_chance = min(1.0, 2 / math.comb(a + b, a))  # all of one before all of the other, either way
    digits = 0 if by_chance > 0.1 else 1
    return {"text": OF_SEVERAL, "values": values | {"a": a, "b": b, "chance": f"{100 * by_chance:.{digits}f}"}}
