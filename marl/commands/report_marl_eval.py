"""The evaluations of runs in the JSON layout of marl-eval: environment -> task -> algorithm -> run -> step -> metrics.

A task is an opponent, an algorithm a group of runs, a run a seed. `step_count` counts env steps; every metric is a list
of one number, since an evaluation knows its rates and not its single matches. `absolute_metrics` are those of the last
evaluation. marl-eval reads the runs of all algorithms by the names of the first one's, and refuses commas in the names
of algorithms.
"""

from collections.abc import Sequence
from typing import Any

from marl.commands.report_groups import Group, seed_of
from marl.commands.runs_summary import RunSummary

ENVIRONMENT = "snakes_3v3"


def marl_eval_document(groups: Sequence[Group], opponents: Sequence[str]) -> dict[str, Any]:
    """The document; marl-eval wants equally many runs and steps of all groups (see uneven)."""
    seeds = groups[0].seeds
    by_seed = len(set(seeds)) == len(seeds) and all(group.seeds == seeds for group in groups)
    return {
        ENVIRONMENT: {
            opponent: {group.name.replace(",", " "): _runs(group, opponent, by_seed) for group in groups}
            for opponent in opponents
        }
    }


def uneven(groups: Sequence[Group]) -> str:
    """Why marl-eval would refuse the document: unequal numbers of runs or evaluations; empty if it would not."""
    runs, points = ({measure(group) for group in groups} for measure in (_number_of_runs, _number_of_evaluations))
    for what, numbers in (("seeds", runs), ("evaluations", points)):
        if len(numbers) > 1:
            return f"groups have different numbers of {what} ({', '.join(map(str, sorted(numbers)))})"
    return ""


def _number_of_runs(group: Group) -> int:
    return len(group.runs)


def _number_of_evaluations(group: Group) -> int:
    return len(group.evaluations[0])


def _runs(group: Group, opponent: str, by_seed: bool) -> dict[str, Any]:
    """The runs by their seeds, or by their numbers if the groups have different seeds."""
    return {
        f"seed_{seed_of(run)}" if by_seed else f"run_{i}": _steps(run, opponent, _number_of_evaluations(group))
        for i, run in enumerate(group.runs, start=1)
    }


def _steps(run: RunSummary, opponent: str, number: int) -> dict[str, Any]:
    rates, minutes = run.curve(opponent, "steps")[:number], run.curve(opponent, "minutes")[:number]
    steps: dict[str, Any] = {}
    for i, ((env_steps, rate), (minute, _)) in enumerate(zip(rates, minutes, strict=True), start=1):
        metrics = {"win_rate": [rate], "elapsed_time": [60 * minute]}
        steps[f"step_{i}"] = {"step_count": round(env_steps), **metrics}
    steps["absolute_metrics"] = metrics
    return steps
