"""Signals that stop a training run."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from arena.system import STOP_SIGNALS

SAME_SIGNAL_SECONDS = 1.0  # a second signal within this time counts as the first: launchers send it twice


@contextmanager
def stop_on_signals(request_stop: Callable[[int], None]) -> Iterator[None]:
    """The first TERM or Ctrl-C calls request_stop with its number; a second one, later, ends the process at once.

    Python has signals in its main thread only: a training in another thread does not hear of them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first: list[float] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if first and time.monotonic() - first[0] > SAME_SIGNAL_SECONDS:
            os._exit(128 + number)
        if not first:
            first.append(time.monotonic())
            request_stop(number)

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
