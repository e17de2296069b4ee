"""Counters and the clock of a training run. All schedules and all periodic tasks follow from them."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass
class Progress:
    """Counters of the whole run, the same on all ranks."""

    turns: int = 0  # of every match slot, over all starts of this run
    updates: int = 0  # minibatches learned from, per rank
    env_steps: int = 0  # match-turns of all ranks
    episodes: int = 0  # matches finished by all ranks
    next_match: int = 0  # first match number that is not used yet
    seconds: float = 0.0  # of training, without evaluations and saves
    best: float = -1.0  # most points of an evaluation

    def take_evaluation(self, points: float, margin: float) -> bool:
        """Whether a team with these points is `best` now: if it is not clearly worse than all before it.

        The most points of many evaluations are luck in part, and a later team has learned more.
        """
        is_best = points >= self.best - math.sqrt(2) * margin  # a difference has the margins of both
        self.best = max(points, self.best)
        return is_best

    def copy(self) -> "Progress":
        return replace(self)

    def metrics(self, before: "Progress") -> dict[str, float]:
        """Counters, and speeds since an earlier state, by tag."""
        seconds = max(1e-9, self.seconds - before.seconds)
        return {
            "time/global_fps": (self.env_steps - before.env_steps) / seconds,
            "time/updates_per_second": (self.updates - before.updates) / seconds,
            "time/seconds": self.seconds,
            "train/env_steps": self.env_steps,
            "train/updates": self.updates,
        }


def crosses_multiple(interval: int, before: int, now: int) -> bool:
    """Whether a counter has reached or passed a multiple of the interval between two readings; never if it is 0."""
    return interval > 0 and before // interval != now // interval


class Stopwatch:
    """Seconds of training: they continue from an earlier process, and pauses do not count. Starts when it is made."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._zero = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """Seconds passed outside pauses."""
        return time.perf_counter() - self._zero

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The time of the block does not count."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._zero += time.perf_counter() - begin
