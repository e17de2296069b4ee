"""The output of a run: a banner, a line per log interval, and on a terminal a progress bar below them.

A log file gets plain lines only. This module knows nothing of training: the caller passes numbers and texts.
"""

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

REFRESH = 0.1  # least seconds between two drawings of the bar
MARKS = 50  # calls of `progress` over which the speed is measured: enough for a steady value that still adapts


class Console:
    """The output of rank 0. `start` is the first episode of a resumed run."""

    def __init__(
        self,
        total_episodes: int,
        start: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._total, self._clock = total_episodes, clock
        self._stream = sys.stdout if stream is None else stream
        self._marks = deque([(start, clock())], maxlen=MARKS)
        self._bar = None
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._bar = _Bar(self._stream, total_episodes, start, clock)

    def banner(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values in two columns."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self._print(f"{name:{width}}  {value}".rstrip())

    def line(self, values: Mapping[str, Any]) -> None:
        """Print one log interval: `episode`, then all other values in their order, then the time left."""
        rest = dict(values)
        episode = int(rest.pop("episode"))
        self.progress(episode)
        texts = [f"{name} {_text(value)}" for name, value in rest.items()]
        self._print(" | ".join([f"episode {episode}/{self._total}", *texts, self._left()]))

    def progress(self, episode: int) -> None:
        """Update the bar and the estimate of the time left."""
        self._marks.append((episode, self._clock()))
        if self._bar:
            self._bar.move(episode, self._left())

    def note(self, text: str) -> None:
        """Print one line of text."""
        self._print(text)

    def summary(self, title: str, rows: Sequence[Sequence[Any]]) -> None:
        """Print a table under a title: the first column left-aligned, the others (mostly numbers) right-aligned."""
        table = [[_text(cell) for cell in row] for row in rows]
        columns = max(map(len, table), default=0)
        table = [row + [""] * (columns - len(row)) for row in table]
        widths = [max(len(row[i]) for row in table) for i in range(columns)]
        self._print(title)
        for row in table:
            cells = [row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, columns))]
            self._print(f"  {'  '.join(cells)}".rstrip())

    def close(self) -> None:
        """Remove the bar and release the terminal; a second call does nothing."""
        if self._bar:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> "Console":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _left(self) -> str:
        return f"{duration(time_left(self._marks, self._total))} left"

    def _print(self, text: str) -> None:
        if self._bar:
            self._bar.print_above(text)
        else:
            print(text, file=self._stream, flush=True)  # flushed: a log file is watched while it grows


class Quiet:
    """A console that prints nothing; for all ranks but 0."""

    def banner(self, rows: Sequence[tuple[str, str]]) -> None: ...
    def line(self, values: Mapping[str, Any]) -> None: ...
    def progress(self, episode: int) -> None: ...
    def note(self, text: str) -> None: ...
    def summary(self, title: str, rows: Sequence[Sequence[Any]]) -> None: ...
    def close(self) -> None: ...

    def __enter__(self) -> "Quiet":
        return self

    def __exit__(self, *_: object) -> None: ...


class _Bar:
    """rich's progress bar. Our calls draw it, no thread does, and it leaves nothing on the screen at the end."""

    def __init__(self, stream: TextIO, total: int, start: int, clock: Callable[[], float]):
        from rich import console, progress

        self._clock, self._drawn = clock, -math.inf
        self._bar = progress.Progress(
            progress.TextColumn("episode {task.completed}/{task.total}"),
            progress.BarColumn(),
            progress.TextColumn("{task.percentage:.0f} %  {task.fields[left]}"),
            console=console.Console(file=stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=stream is sys.stdout,
            redirect_stderr=sys.stderr.isatty(),  # else `2> file` would not get its lines
        )
        self._task = self._bar.add_task("", total=total, completed=start, left="")
        self._bar.start()

    def move(self, episode: int, left: str) -> None:
        now = self._clock()
        self._bar.update(self._task, completed=episode, left=left)
        if now - self._drawn >= REFRESH:
            self._drawn = now
            self._bar.refresh()

    def print_above(self, text: str) -> None:
        # Without markup: [red] in a text is plain text. The terminal wraps it, so that it can be copied in one piece.
        self._bar.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


def duration(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; `?` if unknown."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    rest = round(seconds)
    if rest < 60:
        return f"{rest} s"
    if rest < 3600:
        return f"{rest // 60} min {rest % 60} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def time_left(marks: Sequence[tuple[int, float]], total: int) -> float:
    """Seconds to the last episode, at the speed between the first and the last mark (episode, time); nan if unknown."""
    (first, since), (episode, now) = marks[0], marks[-1]
    if episode >= total:
        return 0.0
    if episode <= first or now <= since:
        return math.nan
    return (total - episode) * (now - since) / (episode - first)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, Sequence):
        return " ".join(map(_text, value))
    if isinstance(value, int):
        return str(value)
    number = float(value)
    return f"{number:.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.4g}"
