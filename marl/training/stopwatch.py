"""Seconds of training: they continue from an earlier process, and pauses do not count."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Starts when it is made, at the seconds given."""

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
