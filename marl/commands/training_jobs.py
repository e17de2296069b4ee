"""Trainings as processes of their own, side by side as far as the cores or GPUs of this machine go."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marl.arguments import parse_whole_number
from marl.commands import launch_flags
from marl.compute import machine
from marl.compute.thread_variables import NUMBA_THREADS, THREADS, user_fixes_threads
from marl.invocation import VARIABLE, program
from marl.training.resume_plan import ResumePlan
from marl.wording import in_one_line

TRAIN = (sys.executable, "-m", "marl", "train")
BESIDE_OTHERS = 2  # threads of a training; more of them gain little: see marl/compute/threads.py
POLL = 0.2  # seconds
GPUS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Room:
    """How many trainings fit at a time, and the environment variables of each place."""

    places: tuple[Mapping[str, str], ...]

    def __len__(self) -> int:
        return len(self.places)


@dataclass
class Job:
    """One training; its output goes to a log file."""

    name: str
    words: Sequence[str]
    log: Path
    place: int = 0
    process: subprocess.Popen[bytes] | None = None
    begun: float = field(default_factory=time.monotonic)

    def start(self, place: int, variables: Mapping[str, str]) -> None:
        self.place, self.begun = place, time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*TRAIN, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, VARIABLE: program(), **variables},
                # Ctrl-C in the terminal goes to this process alone, which passes it on once.
                start_new_session=True,
                preexec_fn=_end_with_parent(),
            )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def stop(self) -> None:
        """Ask the training to save and end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def last_words(self) -> str:
        """The program's own message at the end of the log, or else the last line."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        told = [line.removeprefix("snakes: ") for line in lines if line.startswith("snakes: ")]
        return in_one_line((told or lines or [""])[-1])


def run_jobs(
    jobs: Iterable[Job],
    room: Room,
    on_start: Callable[[Job], None],
    on_end: Callable[[Job, int], None],
    is_stopped: Callable[[], bool],
    watch: Callable[[Sequence[Job]], None],
) -> None:
    """Run all jobs, as many at a time as there is room; each next one is taken when a place is free.

    After `is_stopped` no job is started, and those that run are asked to save and end. `watch` is called with the
    running jobs a few times a second.
    """
    waiting, running = iter(jobs), list[Job]()
    free, is_done, is_told = list(range(len(room))), False, False
    while running or not is_done:
        while free and not is_done and not is_stopped():
            job = next(waiting, None)
            if job is None:
                is_done = True
                break
            job.start(free[0], room.places[free[0]])
            free.pop(0)
            running.append(job)
            on_start(job)
        if is_stopped():
            is_done = True
            if not is_told:
                for job in running:
                    job.stop()
            is_told = True
        for job in [each for each in running if each.process is not None and each.process.poll() is not None]:
            running.remove(job)
            free = sorted([*free, job.place])
            on_end(job, job.process.returncode)
        watch(running)
        if running:
            time.sleep(POLL)


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
    return Room(({} if number == 1 else limit_threads(fixed or max(1, cores // (number * ranks))),) * number)


def limit_threads(number: int) -> dict[str, str]:
    """Environment variables of a training beside others: its threads of torch and Numba."""
    return {THREADS: str(number), NUMBA_THREADS: str(number)}


def _end_with_parent() -> Callable[[], None] | None:
    """What a new process does first: it is asked to save and end if this command is killed. None where not possible."""
    if sys.platform != "linux":
        return None
    from opponents.cage.namespaces import PR_SET_PDEATHSIG, prctl  # not in the new process: nothing is imported there

    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
