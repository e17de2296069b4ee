"""Runs grouped by their configuration: seeds of one configuration are one group, named by what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.analysis.runs import NOT_GROUPED, EvaluationPoint, RunSummary
from marl.analysis.tables import setting_text
from marl.errors import UserError

NAMED_SETTINGS = 3  # settings in the name of a group, at the most


@dataclass(frozen=True)
class RunGroup:
    """The runs of one configuration, which differ in their seeds."""

    name: str
    runs: tuple[RunSummary, ...]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that all runs of the group have in common."""
        return self.runs[0].settings(NOT_GROUPED)

    @property
    def evaluations(self) -> list[list[EvaluationPoint]]:
        """The evaluations of each run, as many of each as all runs of the group have."""
        number = min(len(run.evaluations) for run in self.runs)
        return [run.evaluations[:number] for run in self.runs]

    def final(self, opponents: Sequence[str]) -> np.ndarray:
        """[runs, opponents]: win rates in the last evaluation of each run."""
        return np.array([[run.evaluations[-1].rates[name] for name in opponents] for run in self.runs])

    def curve(self, opponents: Sequence[str]) -> np.ndarray:
        """[evaluations, runs, opponents]: win rates in all evaluations."""
        rates = [[[point.rates[name] for name in opponents] for point in points] for points in self.evaluations]
        return np.array(rates).transpose(1, 0, 2)

    def axis(self, opponent: str, by: str) -> list[float]:
        """Mean over the runs of the place of each evaluation. by: as for the curve of a run."""
        number = len(self.evaluations[0])
        curves = [run.curve(opponent, by)[:number] for run in self.runs]
        return np.mean([[x for x, _ in curve] for curve in curves], 0).tolist()


def choose_runs(runs: Sequence[RunSummary]) -> tuple[list[RunSummary], list[str]]:
    """The runs that can be compared, and why each of the others is left out: runs at half their budget tell nothing."""
    chosen, left_out = [], []
    for run in runs:
        if not run.has_reached_its_limit:
            left_out.append(f"{run.folder} is {run.state}")
        elif not run.evaluations:
            left_out.append(f"{run.folder} has no evaluation")
        else:
            chosen.append(run)
    if not chosen:
        raise UserError(f"none of these runs is finished and evaluated: {'; '.join(left_out)}")
    return chosen, left_out


def common_opponents(groups: Sequence[RunGroup]) -> list[str]:
    """The opponents that every run was evaluated against in all its evaluations, in the order of the first run."""
    runs = [run for group in groups for run in group.runs]
    points = [point for run in runs for point in run.evaluations]
    found = [name for name in runs[0].opponents if all(name in point.rates for point in points)]
    if not found:
        raise UserError(
            f"these runs have no opponent of their evaluations in common: {runs[0].folder} has "
            f"{', '.join(runs[0].opponents)}; others have other ones (see --eval_opponents of train)"
        )
    return found


def group_runs(runs: Sequence[RunSummary]) -> list[RunGroup]:
    """The groups in the order of their first runs; the runs of a group by seed."""
    found: dict[str, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(repr(sorted(run.settings(NOT_GROUPED).items())), []).append(run)
    members = [sorted(each, key=lambda run: (run.seed, run.name)) for each in found.values()]
    names = group_names([each[0].settings(NOT_GROUPED) for each in members])
    return [RunGroup(name, tuple(each)) for name, each in zip(names, members, strict=True)]


def differing_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Path -> its value in each run or group, for settings that differ among those that read them; else None there."""
    paths = dict.fromkeys(path for each in settings for path in each)
    return {path: [each.get(path) for each in settings] for path in paths if _differs(path, settings)}


def _differs(path: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    values = [each[path] for each in settings if path in each]
    return any(value != values[0] for value in values)


def group_names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Short names that tell the groups apart: the learner, then the settings in which groups of one learner differ."""
    names = []
    for mine in settings:
        same_algo = [other for other in settings if other.get("algo") == mine.get("algo")]
        differing = [path for path in differing_settings(same_algo) if path in mine]
        words = [f"{path.rpartition('.')[2]}={setting_text(mine[path])}" for path in differing[:NAMED_SETTINGS]]
        names.append(" ".join([str(mine.get("algo", "run")), *words]))
    # Settings beyond the first three may be what differs: such groups are numbered.
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]
