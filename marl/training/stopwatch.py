"""Seconds of training: they run on from where an earlier process stopped, and stand still in a pause."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Starts when it is made."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._zero = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """What has passed outside pauses."""
        return time.perf_counter() - self._zero

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time that does not count."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._zero += time.perf_counter() - begin
