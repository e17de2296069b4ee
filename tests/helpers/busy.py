"""How much CPU time calls of a function take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def busy(owner: Any, name: str) -> Iterator[list[float]]:
    """CPU time of this process and time of every call of the function, in this order."""
    called, taken = getattr(owner, name), list[float]()

    def measured(*arguments: Any, **options: Any) -> Any:
        clock, cpu = time.monotonic(), time.process_time()
        result = called(*arguments, **options)
        taken.extend((time.process_time() - cpu, time.monotonic() - clock))
        return result

    with mock.patch.object(owner, name, measured):
        yield taken
