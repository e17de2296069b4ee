"""Several trainings with resume: each is a job with a run folder, which a second start finds done or resumes.

Jobs run as processes of their own, side by side as far as the cores or GPUs of this machine go, or one after the other
in this process. Their output goes to a log.
"""

import gc
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

from arena import jit, system
from marl.analysis.runs import NOT_GROUPED, RUNNING, is_run, read_summary
from marl.cli.arguments import parse_whole_number
from marl.cli.invocation import VARIABLE, program
from marl.cli.progress_bar import ProgressBar
from marl.cli.wording import count, duration, in_one_line
from marl.commands import launch_flags
from marl.commands.train_here import train_here
from marl.compute import machine
from marl.compute.thread_variables import NUMBA_THREADS, THREADS, user_fixes_threads
from marl.config.reader import to_dict
from marl.config.train_config import TrainConfig
from marl.config.values import as_written
from marl.errors import UserError
from marl.metrics.run_metrics import last_line
from marl.storage.run_folder import named
from marl.training.resume_plan import ResumePlan, plan_resume
from marl.training.signals import stop_on_signals
from opponents.processes import end_with_parent

TRAIN = (sys.executable, "-m", "marl", "train")
BESIDE_OTHERS = 2  # threads of a training; more of them gain little: see marl/compute/threads.py
POLL = 0.2  # seconds
WATCH_SECONDS = 1.0  # between two readings of the metrics
GPUS = "CUDA_VISIBLE_DEVICES"
UTF8 = {"PYTHONIOENCODING": "utf-8"}  # of the log, on every system
WAITING, DONE, FAILED, STOPPED = "waiting", "done", "failed", "stopped"  # states of a job, beside RUNNING
# Exit codes of a training that a signal has ended: after a save, or before it could save anything.
STOPPED_CODES = (*(code for number in system.STOP_SIGNALS for code in (128 + number, -number)), system.ENDED_BY_CONSOLE)
LIMITS = ("schedule.max_episodes", "max_minutes")  # settings that a second start may change


@dataclass(frozen=True)
class Room:
    """How many trainings fit at a time, and the environment variables of each place."""

    places: tuple[Mapping[str, str], ...]

    def __len__(self) -> int:
        return len(self.places)

    def describe(self, jobs: int) -> str:
        """How this number of jobs is started, as text."""
        if jobs <= 1 or len(self) == 1:
            return "one after another"
        threads = self.places[0].get(THREADS)
        return f"{min(len(self), jobs)} at a time" + (f", {count(int(threads), 'thread')} each" if threads else "")


@dataclass
class TrainingJob:
    """One training: its command line, its run folder, and how it goes."""

    name: str
    argv: Sequence[str]  # what follows `train`
    folder: Path  # of the run
    config: TrainConfig  # which the run is to have
    log: Path = Path()  # by default beside the run folder
    state: str = WAITING
    problem: str = ""  # of one that has failed or was stopped
    is_asked_to_stop: bool = False
    seconds: float = 0.0  # that it has run, up to its end
    _begun: float = 0.0
    _process: subprocess.Popen[bytes] | None = None
    _chosen_episodes: int | None = None

    def __post_init__(self) -> None:
        if self.log == Path():
            self.log = Path(f"{self.folder}.log")

    def start(self, variables: Mapping[str, str]) -> str:
        """Start the training as a process with these environment variables; returns the message."""
        verb = "resumed" if is_run(self.folder) else "started"
        self.state, self._begun = RUNNING, time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [*TRAIN, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": _python_path(), VARIABLE: program(), **UTF8, **variables},
                # Ctrl-C is passed on once; if this command is killed, the training saves and ends.
                **system.apart_from_console(lambda: end_with_parent(signal.SIGTERM)),
            )
        return f"{verb}, log in {self.log}"

    def stop(self) -> None:
        """Ask the training to save and end."""
        self.is_asked_to_stop = True
        if self._process is not None and self._process.poll() is None:
            system.ask_to_end(self._process)

    def has_ended(self) -> bool:
        """Whether the process has ended; state, problem and seconds then say how."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return False
        self.seconds = time.monotonic() - self._begun
        self.state = DONE if code == 0 else STOPPED if code in STOPPED_CODES else FAILED
        if self.state == STOPPED:
            self.problem = "stopped by a signal"
        elif self.state == FAILED:
            self.problem = f"exit code {code}, {self._last_words() or 'no message'} (log: {self.log})"
        return True

    def describe_end(self) -> str:
        """How it has ended, in words."""
        if self.state == DONE:
            return f"done in {duration(self.seconds)}, {self.result()}"
        return self.problem if self.state == STOPPED else f"failed with {self.problem}"

    def train_here(self, until: float = 1.0) -> int:
        """Train in this process up to a fraction of the run; returns the exit code."""
        plan = replace(plan_resume(self.argv), until=until)
        try:
            with open(self.log, "a", encoding="utf-8") as log, redirect_stdout(log):
                return train_here(plan).code
        finally:
            gc.collect()  # frees a GPU's memory of this training before the next one

    def is_done(self) -> bool:
        """Whether the run has reached the limits of the configuration, which may be higher than those it had before."""
        if (
            is_run(self.folder)
            and replace(read_summary(self.folder), config=to_dict(self.config)).has_reached_its_limit
        ):
            self.state = DONE
        return self.state == DONE

    def check_same_settings(self) -> None:
        """A UserError if the run, which is done, was trained with other settings than those of the configuration."""
        saved = read_summary(self.folder)
        now = replace(saved, config=to_dict(self.config)).settings()
        for path, before in saved.settings((*NOT_GROUPED, *LIMITS)).items():
            if now.get(path) not in (None, before):
                raise UserError(
                    f"{self.folder} is done, but with {path} {as_written(before)}, not {as_written(now[path])}; "
                    "take another --run_name"
                )

    def fraction(self) -> float:
        """The done fraction of the run, by episodes or by time."""
        line, config = last_line(self.folder), self.config
        if config.schedule.max_episodes is None and self._chosen_episodes is None and is_run(self.folder):
            self._chosen_episodes = read_summary(self.folder).config.get("schedule", {}).get("max_episodes")
        episodes = config.schedule.max_episodes or self._chosen_episodes
        by_episodes = line.get("step", 0) / episodes if episodes else 0.0
        by_time = line.get("time/seconds", 0.0) / (60 * config.max_minutes) if config.max_minutes else 0.0
        return min(1.0, max(by_episodes, by_time))

    def result(self) -> str:
        """The last evaluation of the run in a few words."""
        points = read_summary(self.folder).evaluations
        return ", ".join(f"{name} {rate:.1%}" for name, rate in points[-1].rates.items()) if points else "no evaluation"

    def _last_words(self) -> str:
        """The program's own message at the end of the log, or else the last line."""
        try:
            lines = self.log.read_text("utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        messages = [line.removeprefix("snakes: ") for line in lines if line.startswith("snakes: ")]
        return in_one_line((messages or lines or [""])[-1])


def run_jobs(
    jobs: Iterable[TrainingJob],
    room: Room,
    title: str,
    on_start: Callable[[TrainingJob, str], str] = lambda job, text: text,
    on_end: Callable[[TrainingJob], str] = TrainingJob.describe_end,
    watch: Callable[[Sequence[TrainingJob]], float] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Run all jobs, as many at a time as there is room; each next one is taken when a place is free.

    After a signal, or once `is_over`, no job is started, and those that run are asked to save and end. Each start and
    each end prints a line: what `on_start` and `on_end` return; nothing for an empty text. `watch` is called with the
    running jobs about once a second, and returns the done fraction of all work for the bar with this title; without
    it `jobs` must be a list. Returns the number of the signal, or 0.
    """
    waiting, running = iter(jobs), dict[int, TrainingJob]()  # place -> job
    stopped, is_told, is_empty, watched = list[int](), False, False, -math.inf

    def notify(job: TrainingJob, text: str) -> None:
        if text:
            print(f"{job.name}: {text}", flush=True)

    def mean_fraction(_: Sequence[TrainingJob]) -> float:
        fractions = [job.fraction() if job.state == RUNNING else job.state != WAITING for job in jobs]
        return sum(fractions) / max(1, len(fractions))

    with stop_on_signals(stopped.append), ProgressBar(title) as bar:
        while running or not is_empty:
            while len(running) < len(room) and not (is_empty or stopped or is_over()):
                job = next(waiting, None)
                if job is None:
                    is_empty = True
                    break
                place = min(set(range(len(room))) - running.keys())
                running[place] = job
                notify(job, on_start(job, job.start(room.places[place])))
            if stopped or is_over():
                is_empty = True
                for job in () if is_told else running.values():
                    job.stop()
                is_told = True
            for place, job in list(running.items()):
                if job.has_ended():
                    del running[place]
                    notify(job, on_end(job))
            if time.monotonic() - watched >= WATCH_SECONDS:
                watched = time.monotonic()
                bar.show((watch or mean_fraction)(list(running.values())))
            if running:
                time.sleep(POLL)
    return stopped[0] if stopped else 0


def find_room(flags: Mapping[str, str], plan: ResumePlan, asked: int | None) -> Room:
    """The trainings that fit at a time: cores / (ranks x threads), or one for the GPUs that a training uses.

    flags: those that start ranks. asked: the user's own number, which is taken as it is.
    """
    import torch

    gpus = 0 if plan.config.device == "cpu" else torch.cuda.device_count()
    ranks = launch_flags.choose_launch(flags, plan)[0] if flags else 1
    if gpus:
        named = plan.config.device.partition(":")[2]  # cuda:1 is that GPU for all of them
        names = [name for name in os.environ.get(GPUS, "").split(",") if name] or [str(i) for i in range(gpus)]
        sets = [names] if named else [names[i : i + ranks] for i in range(0, len(names) - ranks + 1, ranks)]
        places = [{} if named else {GPUS: ",".join(each)} for each in sets] or [{}]
        return Room(tuple(places[i % len(places)] for i in range(asked or len(places))))
    cores = machine.usable_cores()
    given = os.environ.get(THREADS, "") if user_fixes_threads() else ""
    fixed = plan.config.threads or parse_whole_number(given, least=1)
    number = asked or max(1, cores // (ranks * (fixed or min(BESIDE_OTHERS, cores))))
    # Alone, a training chooses its threads itself.
    return Room(({} if number == 1 else thread_limits(fixed or max(1, cores // (number * ranks))),) * number)


def thread_limits(number: int) -> dict[str, str]:
    """Environment variables of a training beside others: its threads of torch and Numba."""
    return {THREADS: str(number), NUMBA_THREADS: str(number)}


def _python_path() -> str:
    """PYTHONPATH with the folder of this program: a script elsewhere may have found it by sys.path alone."""
    return os.pathsep.join([str(jit.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


# Learning rate of PPO's exploiters from trained weights, at most, by optimizer: a larger one makes a policy forget.
FINE_TUNING = {"adam": 5e-4, "muon": 4e-3}


def exploiter_job(
    name: str,
    settings: Sequence[str],
    rivals: Mapping[str, float],
    evaluated: str,
    seed: int,
    budget: tuple[int, float],
    runs_dir: str | Path,
    run_name: str,
    log: Path = Path(),
) -> TrainingJob:
    """The training of an exploiter.

    settings: flags of the learner and of its first weights. rivals: player -> share of the matches. evaluated: whom its
    evaluations meet. budget: episodes and minutes; 0 minutes are no limit.
    """
    episodes, minutes = budget
    argv = [
        *settings, "--schedule.opponents", ",".join(f"{player}:{share:g}" for player, share in rivals.items()),
        "--self-play", "0", "--eval-opponents", evaluated, "--no-eval-gif", "--seed", str(seed),
        "--max-episodes", str(episodes), "--max-minutes", f"{minutes:.9g}",
        "--runs-dir", str(runs_dir), "--run-name", run_name,
    ]  # fmt: skip
    return TrainingJob(name, argv, named(runs_dir, run_name), plan_resume(argv).config, log)
