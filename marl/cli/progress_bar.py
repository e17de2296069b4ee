"""A progress bar with the time left for long commands. It is drawn on stderr, and only if that is a terminal."""

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from marl.cli.wording import duration, in_one_line

REFRESH = 0.1  # least seconds between two drawings
DELAY = 0.5  # seconds of work before the bar appears: short work shows none


def is_terminal(stream: TextIO) -> bool:
    """Whether a bar can be drawn on the stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class ProgressBar:
    """The bar of one piece of work. Our calls draw it, no thread does; nothing of it stays on the screen."""

    def __init__(self, title: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self._clock = title, clock
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = is_terminal(self._stream)
        self._bar: Any = None
        self._task: Any = None
        self._drawn = -math.inf
        self._begun, self._first_fraction = clock(), math.nan  # at the first call: compiling before it does not count

    def show(self, fraction: float) -> None:
        """Draw the done fraction of the work, 0 to 1, and the time left."""
        if not self._is_shown:
            return
        now = self._clock()
        if math.isnan(self._first_fraction):
            self._begun, self._first_fraction = now, fraction
        if now - self._begun < DELAY or now - self._drawn < REFRESH:
            return
        self._drawn = now
        gained = fraction - self._first_fraction
        left = (1 - fraction) * (now - self._begun) / gained if gained > 0 else math.nan
        if self._bar is None:
            self._open()
        self._bar.update(
            self._task, completed=fraction, description=in_one_line(self.title), left=f"{duration(left)} left"
        )
        self._bar.refresh()

    def close(self) -> None:
        """Remove the bar; a second call does nothing."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._is_shown = None, False

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        from rich import console, progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.percentage:.0f} %  {task.fields[left]}"),
            console=console.Console(file=self._stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # else `> file` would not get its lines
            redirect_stderr=self._stream is sys.stderr,
        )
        self._task = self._bar.add_task(in_one_line(self.title), total=1.0, left="")
        self._bar.start()
