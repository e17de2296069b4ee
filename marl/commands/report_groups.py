"""Runs grouped by their configuration: seeds of one configuration are one group, named by what differs."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.commands.runs_compare import NOT_COMPARED
from marl.commands.runs_summary import EvaluationPoint, RunSummary
from marl.config.values import as_written
from marl.errors import UserError

# Settings that change neither what is trained nor how it is measured.
NOT_GROUPED = (
    *NOT_COMPARED, "seed", "threads", "onednn", "log_interval", "save_interval", "keep_last", "milestones",
    "save_buffer", "wandb", "evaluation.eval_gif", "evaluation.uncaged", "ddp.timeout", "ddp.check_sync",
)  # fmt: skip
NAMED_SETTINGS = 3  # settings in the name of a group, at the most
VALUE_MAX = 24  # letters of a value in the name of a group
ALL = "all opponents"


@dataclass(frozen=True)
class Group:
    """The runs of one configuration, which differ in their seeds."""

    name: str
    runs: tuple[RunSummary, ...]

    @property
    def seeds(self) -> list[int]:
        return [seed_of(run) for run in self.runs]

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
        """Mean over the runs of the place of each evaluation. by: episodes, steps or seconds."""
        number = len(self.evaluations[0])
        curves = [run.curve(opponent, "minutes" if by == "seconds" else by)[:number] for run in self.runs]
        means = np.mean([[x for x, _ in curve] for curve in curves], 0) * (60 if by == "seconds" else 1)
        return means.tolist()


def seed_of(run: RunSummary) -> int:
    """The seed of a run; 0 if its configuration is damaged."""
    seed = run.config.get("seed")
    return seed if isinstance(seed, int) else 0


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


def common_opponents(groups: Sequence[Group]) -> list[str]:
    """The opponents that every run was evaluated against in its last evaluation, in the order of the first run."""
    runs = [run for group in groups for run in group.runs]
    found = [name for name in runs[0].opponents if all(_knows(run, name) for run in runs)]
    if not found:
        raise UserError(
            f"these runs have no opponent of their evaluations in common: {runs[0].folder} has "
            f"{', '.join(runs[0].opponents)}; others have other ones (see --eval_opponents of train)"
        )
    return found


def _knows(run: RunSummary, opponent: str) -> bool:
    return all(opponent in point.rates for point in run.evaluations)


def group_runs(runs: Sequence[RunSummary]) -> list[Group]:
    """The groups in the order of their first runs; the runs of a group by seed."""
    found: dict[Hashable, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(_key(run), []).append(run)
    members = [sorted(each, key=lambda run: (seed_of(run), run.name)) for each in found.values()]
    names = group_names([_grouped_settings(each[0]) for each in members])
    return [Group(name, tuple(each)) for name, each in zip(names, members, strict=True)]


def differing_settings(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """Path -> its value in each group (None where a group does not read it), for settings that differ."""
    settings = [_grouped_settings(group.runs[0]) for group in groups]
    paths = dict.fromkeys(path for each in settings for path in each)
    found = {path: [each.get(path) for each in settings] for path in paths}
    read_by_all = {path for path in paths if all(path in each for each in settings)}
    return {
        path: values
        for path, values in found.items()
        if any(value != values[0] for value in values) and (path in read_by_all or _differs(path, settings))
    }


def group_names(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Short names that tell the groups apart: the learner, then the settings in which groups of one learner differ."""
    names = []
    for mine in settings:
        same_algo = [other for other in settings if other.get("algo") == mine.get("algo")]
        differing = [path for path in mine if _differs(path, same_algo)]
        words = [f"{path.rpartition('.')[2]}={_short(mine[path])}" for path in differing[:NAMED_SETTINGS]]
        names.append(" ".join([str(mine.get("algo", "run")), *words]))
    # Settings beyond the first three may be what differs: such groups are numbered.
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]


def _differs(path: str, settings: Sequence[dict[str, Any]]) -> bool:
    values = [each[path] for each in settings if path in each]
    return any(value != values[0] for value in values)


def _short(value: Any) -> str:
    text = as_written(tuple(value) if isinstance(value, list) else value)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 3] + "..."


def _grouped_settings(run: RunSummary) -> dict[str, Any]:
    return {path: value for path, value in run.settings().items() if path not in NOT_GROUPED}


def _key(run: RunSummary) -> Hashable:
    return tuple(sorted((path, repr(value)) for path, value in _grouped_settings(run).items()))
