"""What is known about a run from its folder: settings, progress, evaluations, size, and whether it still runs.

Reads plain files only (config.yaml, run.json, metrics.jsonl, pointer files, manifests): a list of runs needs no torch.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from marl.compute.process_identity import is_running
from marl.config.options import section_of
from marl.config.yaml_file import parse_yaml
from marl.errors import UserError
from marl.metrics.run_metrics import lines_with, read_lines
from marl.registry import LEARNERS
from marl.storage.checkpoint import BEST, ENV_STEPS, FOLDER
from marl.storage.checkpoint_finder import episode_of, list_all, manifest_field, read_pointer
from marl.storage.run_folder import CONFIG, RUN, all_runs, listing, read_regular, read_run
from marl.storage.run_names import find_named
from opponents.intervals import wilson

RUNNING, FINISHED, UNFINISHED = "running", "finished", "unfinished"
CHECKPOINTS = "checkpoints"
RECENT = 3600.0  # seconds: a run of another machine that was written to since then counts as running
RATE, LOW, HIGH, POINTS = "eval/win_rate_", "eval_low/", "eval_high/", "eval/points"
# x axis -> metric, its unit
AXES = {"steps": ("train/env_steps", 1), "minutes": ("time/seconds", 60), "seconds": ("time/seconds", 1)}
# Settings that say where a run is or how it was begun, not what was trained.
NOT_COMPARED = (
    "run_name", "runs_dir", "resume", "load_model", "load_model_run", "load_model_run_episode", "config_version",
)  # fmt: skip
# Those, and settings that change neither what is trained nor how it is measured.
NOT_GROUPED = (
    *NOT_COMPARED, "seed", "threads", "onednn", "log_interval", "save_interval", "keep_last", "milestones",
    "save_buffer", "wandb", "profile", "evaluation.eval_gif", "evaluation.uncaged", "ddp.timeout", "ddp.check_sync",
)  # fmt: skip


@dataclass(frozen=True)
class EvaluationPoint:
    """One evaluation of a run."""

    episode: int
    points: float  # mean share of the points over all opponents
    rates: dict[str, float]  # opponent -> share of the matches won
    intervals: dict[str, tuple[float, float]]  # opponent -> 95 % interval of that share

    def text(self, opponent: str) -> str:
        """The win rate against an opponent, with its interval."""
        low, high = self.intervals[opponent]
        return f"{self.rates[opponent]:.1%} ({100 * low:.0f}-{100 * high:.0f})"


@dataclass
class RunSummary:
    """A run, read from its folder."""

    folder: Path
    config: dict[str, Any]
    about: dict[str, Any]
    lines: list[dict[str, Any]] = field(repr=False)  # metrics: of all evaluations, and the last others

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def algo(self) -> str:
        return str(self.config.get("algo", "-"))

    @property
    def seed(self) -> int:
        """The seed; 0 if the configuration is damaged."""
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) else 0

    @property
    def started(self) -> float:
        """First start of the run, in seconds since 1970."""
        starts = [about.get("started_unix") for about in (*self.about.get("earlier", ()), self.about)]
        return next((float(at) for at in starts if isinstance(at, (int, float))), self.folder.stat().st_mtime)

    @property
    def last_started(self) -> float:
        at = self.about.get("started_unix")
        return float(at) if isinstance(at, (int, float)) else self.started

    @property
    def episodes(self) -> int:
        """Episodes in the last metric line or the newest checkpoint: a run may be killed between the two."""
        saved = [episode_of(checkpoint) for checkpoint in list_all(self.folder)[:1]]
        return max((*saved, *(int(line["step"]) for line in self.lines)), default=0)

    @property
    def env_steps(self) -> int:
        saved = [manifest_field(checkpoint, ENV_STEPS) for checkpoint in list_all(self.folder)[:1]]
        return max((*(steps for steps in saved if isinstance(steps, int)), int(self._last("train/env_steps"))))

    @property
    def seconds(self) -> float:
        """Time of training, without compiling and evaluations."""
        return self._last("time/seconds")

    @cached_property
    def size(self) -> int:
        """Bytes on disk."""
        return size_on_disk(self.folder)

    @cached_property
    def changed(self) -> float:
        """Last change of any of its files, in seconds since 1970."""
        return max((status.st_mtime for status in _files(self.folder)), default=self.folder.stat().st_mtime)

    @property
    def opponents(self) -> tuple[str, ...]:
        """Opponents of its evaluations, in their order."""
        names = _mapping(self.config.get("evaluation")).get("eval_opponents")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    @cached_property
    def evaluations(self) -> list[EvaluationPoint]:
        found = []
        for line in self.lines:
            rates = {name: line[RATE + name] for name in self.opponents if line.get(RATE + name) is not None}
            if rates and line.get(POINTS) is not None:
                intervals = {name: self._interval(line, name) for name in rates}
                found.append(EvaluationPoint(int(line["step"]), float(line[POINTS]), rates, intervals))
        return found

    @property
    def best(self) -> EvaluationPoint | None:
        """The evaluation of the checkpoint `best`; of a run without one, that with the most points.

        The one before the first update does not count: no checkpoint has its team.
        """
        pointer = read_pointer(self.folder / FOLDER / BEST)
        evaluations = [each for each in self.evaluations if each.episode]
        of_best = [each for each in evaluations if pointer and each.episode == episode_of(pointer)]
        return max(of_best or evaluations, key=lambda each: each.points, default=None)

    @cached_property
    def state(self) -> str:
        """running, finished (its limit is reached and saved) or unfinished."""
        names = [self.about.get("process"), *(_mapping(self.about.get("launch")).get("launchers") or ())]
        alive = [is_running(name) for name in names if isinstance(name, str)]
        finished = self.has_reached_its_limit
        unknown = not alive or None in alive
        if True in alive or (unknown and not finished and time.time() - self.changed < RECENT):
            return RUNNING
        return FINISHED if finished else UNFINISHED

    def curve(self, opponent: str, by: str) -> list[tuple[float, float]]:
        """(x, win rate) of all evaluations against an opponent. by: episodes, or one of AXES."""
        points = [(point.episode, point.rates[opponent]) for point in self.evaluations if opponent in point.rates]
        if by == "episodes":
            return [(float(episode), rate) for episode, rate in points]
        tag, unit = AXES[by]
        logged = [(0.0, 0.0), *((step, value / unit) for step, value in self._logged[tag])]
        return [(_interpolated(episode, logged), rate) for episode, rate in points]

    @cached_property
    def _logged(self) -> dict[str, list[tuple[float, float]]]:
        """Metrics of x axes by tag: (step, value) of each line."""
        lines = read_lines(self.folder)
        tags = {tag for tag, _ in AXES.values()}
        return {tag: [(float(line["step"]), line[tag]) for line in lines if line.get(tag) is not None] for tag in tags}

    def settings(self, without: Collection[str] = NOT_COMPARED) -> dict[str, Any]:
        """Options by path, without some of them and without the sections of learners that this run does not use."""
        learners = {section_of(name, self.config) for name in LEARNERS} - {section_of(self.algo, self.config)}
        flat = ((path, value) for path, value in _flat(self.config) if path not in without)
        return {path: value for path, value in flat if path.partition(".")[0] not in learners}

    def document(self) -> dict[str, Any]:
        """The run for JSON."""
        best = self.best
        rates = {
            name: {"win_rate": rate, "low": best.intervals[name][0], "high": best.intervals[name][1]}
            for name, rate in (best.rates if best else {}).items()
        }
        return {
            "name": self.name,
            "path": str(self.folder),
            "algo": self.algo,
            "state": self.state,
            "episodes": self.episodes,
            "env_steps": self.env_steps,
            "seconds": self.seconds,
            "started_unix": self.started,
            "bytes": self.size,
            "best": {"episode": best.episode, "points": best.points, "against": rates} if best else None,
        }

    def _interval(self, line: Mapping[str, Any], name: str) -> tuple[float, float]:
        """95 % interval of the win rate against an opponent in an evaluation."""
        if line.get(LOW + name) is not None and line.get(HIGH + name) is not None:
            return float(line[LOW + name]), float(line[HIGH + name])
        matches = _mapping(self.config.get("evaluation")).get("eval_matches")  # the only source in runs of old versions
        return wilson(round(line[RATE + name] * matches), matches) if isinstance(matches, int) else (0.0, 1.0)

    def _last(self, tag: str) -> float:
        return float(next((line[tag] for line in reversed(self.lines) if line.get(tag) is not None), 0.0))

    @property
    def has_reached_its_limit(self) -> bool:
        """Whether all its episodes or minutes are trained and saved."""
        try:
            saved = int(read_regular(self.folder / CHECKPOINTS / "last").decode().strip().rpartition("_")[2])
        except (OSError, ValueError):
            return False
        limit = _mapping(self.config.get("schedule")).get("max_episodes")
        minutes = self.config.get("max_minutes")
        by_time = isinstance(minutes, (int, float)) and minutes > 0 and self.seconds >= 60 * minutes
        return by_time or (isinstance(limit, int) and saved >= limit)


def read_summary(folder: Path) -> RunSummary:
    """The run in a folder. Missing and damaged files count as empty: such runs must be listed and deleted, too."""
    try:
        text = read_regular(folder / CONFIG).decode("utf-8-sig")
        config = _mapping(parse_yaml(text))
    except Exception:  # of any kind that a file of a stranger brings about
        config = {}
    return RunSummary(folder, dict(config), read_run(folder), lines_with(folder, POINTS))


def read_all(runs_dir: str) -> list[RunSummary]:
    """All runs, the one started last first."""
    runs = [read_summary(folder) for folder in all_runs(runs_dir) if is_run(folder)]
    return sorted(runs, key=lambda run: (run.last_started, run.name), reverse=True)


def find_runs(names: list[str], runs_dir: str) -> list[RunSummary]:
    """The runs of these names or paths, each once."""
    found: dict[Path, RunSummary] = {}
    for name in names:
        folder = find_named(name, runs_dir)
        if not is_run(folder):
            there = listing([run.name for run in all_runs(runs_dir) if is_run(run)])
            raise UserError(f"{name}: no run; in {runs_dir} there: {there}")
        found.setdefault(folder.resolve(), read_summary(folder))
    return list(found.values())


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, also of one that ended before its first checkpoint."""
    return folder.is_dir() and any(os.path.lexists(folder / name) for name in (RUN, CONFIG))


def size_on_disk(folder: Path) -> int:
    """Bytes that the files below a folder take on disk."""
    return sum(512 * blocks if (blocks := getattr(s, "st_blocks", None)) else s.st_size for s in _files(folder))


def _files(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(parent, name))
            except OSError:  # removed since
                continue


def _interpolated(x: float, points: list[tuple[float, float]]) -> float:
    """The value at x on the line through the points; before and after them that of the nearest."""
    at = bisect_left(points, x, key=itemgetter(0))
    if at == len(points) or at == 0:
        return points[min(at, len(points) - 1)][1]
    (left, low), (right, high) = points[at - 1], points[at]
    return low + (high - low) * (x - left) / (right - left)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
