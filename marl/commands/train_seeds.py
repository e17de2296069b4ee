"""train --seeds: the same training with several seeds, each in its own process and run folder.

The runs are named NAME_seed1, NAME_seed2, ... A second start with the same --run_name skips the seeds that are done and
resumes those that were cut off. A seed that fails does not stop the others.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marl.arguments import flag_names, parse_whole_number, refuse_flags
from marl.commands import launch_flags
from marl.commands.training_jobs import Job, Room, find_room, run_jobs
from marl.compute.thread_variables import THREADS
from marl.config.reader import to_dict
from marl.config.train_config import TrainConfig, read_config
from marl.config.values import as_written
from marl.errors import UserError
from marl.invocation import command
from marl.progress_bar import ProgressBar
from marl.ranks import environment
from marl.storage.run_folder import GROUP, make_group
from marl.storage.run_names import RUNS_DIR
from marl.training.metrics import last_line
from marl.training.resume_plan import ResumePlan, plan_resume
from marl.training.signals import STOP_SIGNALS, stop_on_signals
from marl.wording import count, duration

SEEDS, SIDE_BY_SIDE = "--seeds", "--side-by-side"
HELP = """Several seeds:
  --seeds 1-10                train each of these seeds (also 1,2,5), in runs NAME_seed1, ... with --run_name NAME; a
                              second start skips the seeds that are done and resumes the others; see report --help
  --side_by_side N            of them at a time (default: cores / (ranks x threads), on GPUs one per GPU)
"""
MOST_SEEDS = 1_000
# Exit codes of a training that a signal has ended: after a save, or before it could save anything.
STOPPED = tuple(code for number in STOP_SIGNALS for code in (128 + number, -number))
LIMITS = ("schedule.max_episodes", "max_minutes")
WATCH_SECONDS = 1.0  # between two readings of the metrics, for the progress bar


@dataclass(frozen=True)
class SeedFlags:
    """What the command line says about seeds."""

    seeds: tuple[int, ...]
    side_by_side: int | None


def split_seed_flags(words: Sequence[str]) -> tuple[SeedFlags | None, list[str]]:
    """The flags about seeds, and all other words; None without --seeds."""
    given: dict[str, str] = {}
    others, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name not in (SEEDS, SIDE_BY_SIDE):
            others.append(word)
        elif equals or (rest and not rest[0].startswith("--")):
            given[name] = value if equals else rest.pop(0)
        else:
            raise UserError(f"{name} needs a value (see {command('train', '--help')})")
    if SEEDS not in given:
        if given:
            raise UserError("--side_by_side is about --seeds, which is missing")
        return None, others
    number = given.get(SIDE_BY_SIDE)
    side_by_side = None if number is None else parse_whole_number(number, least=1)
    if number is not None and side_by_side is None:
        raise UserError(f"--side_by_side {number}: a whole number from 1 is needed")
    return SeedFlags(parse_seeds(given[SEEDS]), side_by_side), others


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of `1-10`, `1,2,5` or `1-3,7`, each once and in this order."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MOST_SEEDS:
            raise UserError(f"--seeds {text}: seeds like 1-10 or 1,2,5 are needed, at most {MOST_SEEDS:,}")
        seeds |= dict.fromkeys(range(first, last + 1))
    return tuple(seeds)


def first_seed_words(seed_flags: SeedFlags, words: Sequence[str]) -> list[str]:
    """The words of the training of the first seed, for --dry_run and --print_config."""
    config = _check(words)
    return _words_of(words, config.run_name or "NAME", seed_flags.seeds[0])


def train_seeds(seed_flags: SeedFlags, words: Sequence[str]) -> int:
    """Train all seeds; returns 0 if all are done, 1 if one failed, 128 + signal if the user stopped it."""
    config = _check(words)
    name = config.run_name or f"{config.algo}_{time.strftime('%Y%m%d_%H%M%S')}"
    again = command("train", *words, *([] if config.run_name else ["--run-name", name]), *_own_words(seed_flags))
    flags, _ = launch_flags.split_launch_flags(words)
    plans = {seed: _plan(words, name, seed) for seed in seed_flags.seeds}
    training = _Seeds(plans, Path(config.runs_dir), name)
    jobs = training.jobs(words)
    stopped: list[int] = []
    if jobs:
        make_group(config.runs_dir)
        room = find_room(flags, plans[seed_flags.seeds[0]], seed_flags.side_by_side)
        print(f"seeds {_listed(plans)}: runs {training.folder(name)}_seed*; {_describe(room, len(jobs))}", flush=True)
        with stop_on_signals(stopped.append), ProgressBar("seeds") as bar:
            training.bar = bar
            run_jobs(jobs, room, training.tell_start, training.tell_end, lambda: bool(stopped), training.watch)
    left = [seed for seed in plans if seed not in training.done]
    if not left:
        place = [] if config.runs_dir == RUNS_DIR else ["--runs-dir", config.runs_dir]
        print(f"all {count(len(plans), 'seed')} done; compare them: {command('report', name, *place)}")
        return 0
    if stopped:
        print(f"stopped: {_listed(left)} not done; resume: {again}")
        return 128 + stopped[0]
    failed = "; ".join(f"seed {seed}: {training.failed[seed]}" for seed in left)
    print(f"snakes: {len(left)} of {count(len(plans), 'seed')} failed: {failed}; again: {again}", file=sys.stderr)
    return 1


class _Seeds:
    """The seeds of one start: what is done, what failed, and the lines that tell it."""

    def __init__(self, plans: Mapping[int, ResumePlan], runs_dir: Path, name: str) -> None:
        self._plans, self._runs_dir, self._name = plans, runs_dir, name
        self.done: set[int] = set()
        self.failed: dict[int, str] = {}
        self.bar: ProgressBar | None = None
        self._episodes: dict[int, int | None] = {}  # those that were chosen for `auto`, by seed
        self._watched = 0.0

    def folder(self, name: str) -> Path:
        return self._runs_dir / GROUP / name

    def jobs(self, words: Sequence[str]) -> list[Job]:
        """The trainings that are left to do."""
        found = []
        for seed, plan in self._plans.items():
            folder = self.folder(seed_run_name(self._name, seed))
            if is_done(folder, plan.config):
                check_same_settings(folder, plan.config)
                self.done.add(seed)
                print(f"seed {seed}: done already, {_result(folder)}", flush=True)
            else:
                found.append(Job(str(seed), _words_of(words, self._name, seed), Path(f"{folder}.log")))
        return found

    def tell_start(self, job: Job) -> None:
        seed = int(job.name)
        verb = "resumed" if self._plans[seed].source is not None else "started"
        print(f"seed {seed}: {verb}, log in {job.log}", flush=True)

    def tell_end(self, job: Job, code: int) -> None:
        seed, folder = int(job.name), self.folder(seed_run_name(self._name, int(job.name)))
        if code == 0:
            self.done.add(seed)
            print(f"seed {seed}: done in {duration(job.seconds)}, {_result(folder)}", flush=True)
        elif code in STOPPED:
            self.failed[seed] = "stopped by a signal"
            print(f"seed {seed}: {self.failed[seed]}", flush=True)
        else:
            self.failed[seed] = f"exit code {code}, {job.last_words() or 'no message'} (log: {job.log})"
            print(f"seed {seed}: failed with {self.failed[seed]}", flush=True)

    def watch(self, running: Sequence[Job]) -> None:
        """Show the done share of all seeds."""
        now = time.monotonic()
        if self.bar is None or now - self._watched < WATCH_SECONDS:
            return
        self._watched = now
        shares = [self._share(int(job.name)) for job in running]
        self.bar.show((len(self.done) + len(self.failed) + sum(shares)) / len(self._plans))

    def _share(self, seed: int) -> float:
        config = self._plans[seed].config
        line = last_line(self.folder(seed_run_name(self._name, seed)))
        episodes = config.schedule.max_episodes or self._chosen_episodes(seed)
        by_episodes = line.get("step", 0) / episodes if episodes else 0.0
        by_time = line.get("time/seconds", 0.0) / (60 * config.max_minutes) if config.max_minutes else 0.0
        return min(1.0, max(by_episodes, by_time))

    def _chosen_episodes(self, seed: int) -> int | None:
        """What the training has chosen for `auto`; None while it starts."""
        from marl.analysis.runs import is_run, read_summary

        folder = self.folder(seed_run_name(self._name, seed))
        if seed not in self._episodes and is_run(folder):
            self._episodes[seed] = read_summary(folder).config.get("schedule", {}).get("max_episodes")
        return self._episodes.get(seed)


def is_done(folder: Path, config: TrainConfig) -> bool:
    """Whether the run has reached the limits of this configuration, which may be higher than those it had before."""
    from marl.analysis.runs import is_run, read_summary

    return is_run(folder) and replace(read_summary(folder), config=to_dict(config)).has_reached_its_limit


def check_same_settings(folder: Path, config: TrainConfig) -> None:
    """A UserError if a run that is done was trained with other settings than the command line asks for now."""
    from marl.analysis.runs import NOT_GROUPED, read_summary

    saved = read_summary(folder)
    now = replace(saved, config=to_dict(config)).settings()
    for path, before in saved.settings().items():
        if path not in (*NOT_GROUPED, *LIMITS) and now.get(path) not in (None, before):
            raise UserError(
                f"{folder} is done, but with {path} {as_written(before)}, not {as_written(now[path])}; "
                "take another --run_name"
            )


def _check(words: Sequence[str]) -> TrainConfig:
    """The configuration without seeds; a UserError for what does not go with --seeds."""
    if environment.is_rank():
        raise UserError("--seeds starts processes of its own; start it without torchrun (with --distributed for ranks)")
    flags, others = launch_flags.split_launch_flags(words)
    if launch_flags.asks_for_nodes(flags):
        raise UserError("--seeds trains on one machine; on several, start one training per seed (--seed)")
    refuse_flags(others, ("--resume", "--load-model"), "--seeds", "the same --run_name resumes its seeds")
    if "--seed" in flag_names(others):
        raise UserError("--seed and --seeds both say the seed; leave one out")
    return read_config(others)


def _plan(words: Sequence[str], name: str, seed: int) -> ResumePlan:
    return plan_resume(launch_flags.split_launch_flags(_words_of(words, name, seed))[1])


def _words_of(words: Sequence[str], name: str, seed: int) -> list[str]:
    return [*words, "--seed", str(seed), "--run-name", seed_run_name(name, seed)]


def seed_run_name(name: str, seed: int) -> str:
    """The name of the run of one seed."""
    return f"{name}_seed{seed}"


def _own_words(seed_flags: SeedFlags) -> list[str]:
    number = [] if seed_flags.side_by_side is None else [SIDE_BY_SIDE, str(seed_flags.side_by_side)]
    return [SEEDS, _listed(seed_flags.seeds), *number]


def _listed(seeds: Sequence[int] | Mapping[int, Any]) -> str:
    """`1-3` or `1,2,5`."""
    numbers = list(seeds)
    is_range = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return f"{numbers[0]}-{numbers[-1]}" if is_range else ",".join(map(str, numbers))


def _describe(room: Room, jobs: int) -> str:
    if jobs <= 1 or len(room) == 1:
        return "one after another"
    threads = room.places[0].get(THREADS)
    return f"{min(len(room), jobs)} at a time" + (f", {count(int(threads), 'thread')} each" if threads else "")


def _result(folder: Path) -> str:
    """The last evaluation of a run in a few words."""
    from marl.analysis.runs import read_summary

    points = read_summary(folder).evaluations
    return ", ".join(f"{name} {rate:.1%}" for name, rate in points[-1].rates.items()) if points else "no evaluation"
