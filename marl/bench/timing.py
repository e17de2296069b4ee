"""How speed is measured: warm-up, then the best of several windows."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

WINDOWS = 5


class Row(NamedTuple):
    """One measurement; threads is None on a GPU."""

    device: str
    matches: int
    threads: int | None
    what: str
    match_turns_per_second: float

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "snake_turns_per_second": 6 * self.match_turns_per_second}


def best_rate(run_turns: Callable[[int], None], turns: int, seconds: float) -> float:
    """Turns per second of `run_turns(count)`, best of several windows; counts are multiples of `turns`."""
    run_turns(turns)  # warm up: compile, allocate, fill caches
    window = seconds / WINDOWS
    count, taken = turns, _timed(run_turns, turns)
    while taken < window / 2:  # grow until the clock and the calls around it no longer matter
        count = max(2 * count, turns * int(count / turns * window / max(taken, 1e-9)))
        taken = _timed(run_turns, count)
    return count / min([taken, *(_timed(run_turns, count) for _ in range(WINDOWS - 1))])


def _timed(run_turns: Callable[[int], None], count: int) -> float:
    begin = time.perf_counter()
    run_turns(count)
    return time.perf_counter() - begin
