"""Several matches' processes at work at the same time, each with limits on the time of every answer.

The limit is CPU time of the process, so a busy machine stops no honest submission; waiting has a limit of its own, some
times as long. CPU time counts from the last answer: threads that go on between two turns use up the next move's time.
"""

import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from opponents.sandbox.process import Broken, MatchProcess, Selector

WAIT_FACTOR = 20  # wall time of a move / CPU time of a move
CHECK_SECONDS = 0.005  # at least this long between two looks at the clock
SOON = 0.001  # seconds that a look comes after the time it is for


@dataclass(frozen=True)
class Expected:
    """An answer that a process owes: for whom, and its limits."""

    snake: int
    cpu_seconds: float
    wall_seconds: float


@dataclass
class Job:
    """Requests to one process, answered one after the other."""

    start: Callable[[], MatchProcess]  # posts the requests
    expected: deque[Expected]
    answers: list[int | str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # that each answer took, and the missing one: CPU or wall time
    failure: str | None = None  # why the process was ended; the first entry of `expected` is then the missing answer
    process: MatchProcess | None = None
    waited: float = 0.0  # seconds until the last answer, or until the failure
    _began: float = 0.0
    _since: float = 0.0
    _cpu_since: float = 0.0
    _check_at: float = 0.0

    def begin(self) -> None:
        """Post the requests."""
        self.process = self.start()
        self._began = time.monotonic()
        self._count_from_here()

    def read(self) -> None:
        """Take over the answers that have come. A text in place of a load's 0 ends the job."""
        self.process.read()
        while self.expected and (answer := self.process.next_answer(self.expected[0].snake)) is not None:
            failed_to_load = self.expected.popleft().snake <= 0 and isinstance(answer, str)
            self.answers.append(answer)
            self.seconds.append(self._taken(self.process.cpu_at_answer))
            if failed_to_load:
                self.expected.clear()
            self._count_from_here()

    def check_time(self, now: float) -> float:
        """Broken if the process took too long; otherwise the time of the next look."""
        if now < self._check_at:
            return self._check_at
        limit = self.expected[0]
        waited, cpu = now - self._since, self.process.cpu_seconds()
        if cpu is not None and cpu - self._cpu_since >= limit.cpu_seconds:
            raise Broken(f"took more than {limit.cpu_seconds:g} s of CPU time and was stopped")
        if waited >= limit.wall_seconds:
            raise Broken(f"gave no answer for {limit.wall_seconds:g} s and was stopped")
        left = limit.wall_seconds - waited
        if cpu is not None:
            left = min(left, limit.cpu_seconds - (cpu - self._cpu_since))
        self._check_at = now + max(CHECK_SECONDS, left)
        return self._check_at

    def fail(self, reason: str) -> None:
        """End the process; the first entry of `expected` is the missing answer."""
        self.failure = reason
        self.waited = time.monotonic() - self._began
        self.seconds.append(self._taken(self.process.cpu_seconds()))
        self.process.end()

    def _taken(self, cpu: float | None) -> float:
        """Seconds since the last answer, of the CPU if the kernel tells them."""
        return cpu - self._cpu_since if cpu else time.monotonic() - self._since

    def _count_from_here(self) -> None:
        self._since = self._check_at = time.monotonic()
        self.waited = self._since - self._began
        self._cpu_since = self.process.cpu_at_answer


def run_jobs(jobs: list[Job], workers: int) -> None:
    """Do all jobs, at most `workers` at the same time. What they answer does not depend on how many."""
    waiting = deque(jobs)
    running: dict[int, Job] = {}  # by the number of its channel
    selector = Selector()
    while waiting or running:
        while waiting and len(running) < workers:
            job = waiting.popleft()
            try:
                job.begin()
            except Broken as error:
                job.failure = str(error)
                continue
            running[job.process.fileno()] = job
            selector.register(job.process, _wanted(job))
        if not running:
            continue
        now = time.monotonic()
        for number, job in list(running.items()):
            _attempt(job, job.check_time, now)
            if job.failure is not None:
                _forget(selector, running, number)
        if not running:
            continue
        soonest = min(job.check_time(now) for job in running.values())
        for key, event in selector.select(max(0.0, soonest - now) + SOON):
            number, job = key.fd, running[key.fd]
            if event & selectors.EVENT_WRITE:
                job.process.send()
                selector.modify(number, _wanted(job))
            if event & selectors.EVENT_READ:
                _attempt(job, job.read)
            if job.failure is not None or not job.expected:
                _forget(selector, running, number)


def _attempt(job: Job, step: Callable[..., object], *arguments: float) -> None:
    try:
        step(*arguments)
    except Broken as error:
        job.fail(str(error))


def _wanted(job: Job) -> int:
    return selectors.EVENT_READ | (selectors.EVENT_WRITE if job.process.has_unsent else 0)


def _forget(selector: selectors.BaseSelector, running: dict[int, Job], number: int) -> None:
    selector.unregister(number)
    del running[number]


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
