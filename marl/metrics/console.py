"""The output of a run: a banner, a line per log interval, and on a terminal a progress bar below them.

A terminal gets a coloured table, whose rows fit WIDTH columns; a file or a pipe gets plain `name value | name value`
lines of at most WIDTH columns. This module knows nothing of training: the caller passes numbers and texts.
"""

import math
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from marl.cli.progress_bar import REFRESH, is_terminal
from marl.cli.wording import duration

WIDTH = 100  # columns
HEADER_EVERY = 20  # rows of the table between two headers
COLUMN = 7  # least width of a column of the table
MARKS = 50  # calls of `progress` over which the speed is measured: enough for a steady value that still adapts
NAME, HEADER, NOTE, COMMAND = "cyan", "bold", "yellow", "green"  # styles on a terminal
Piece = tuple[str, str]  # text and style


class Console:
    """The output of rank 0.

    total_episodes and limit_seconds (of training, 0: no limit) are the ends of the run, whichever comes first.
    """

    def __init__(
        self,
        total_episodes: int,
        start: int = 0,
        limit_seconds: float = 0.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """start: first episode of a resumed run."""
        self._total, self._limit, self._clock = total_episodes, limit_seconds, clock
        self._stream = sys.stdout if stream is None else stream
        # Empty up to the first call of `progress`: the first cycle compiles, which says nothing about the time left.
        self._marks: deque[tuple[int, float]] = deque(maxlen=MARKS)
        self._first_mark = (0.0, 0.0)  # training seconds and clock
        self._rows = 0  # of the table, since its header
        self._widths: dict[str, int] = {}
        self._bar = _Bar(self._stream, total_episodes, start, clock) if is_terminal(self._stream) else None

    def banner(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values in two columns. On a terminal, long values are wrapped between words."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            lines = [value]
            if self._bar:
                lines = textwrap.wrap(value, WIDTH - width - 2, break_long_words=False, break_on_hyphens=False)
            first, *rest = lines or [""]
            self._print((name.ljust(width), NAME), (f"  {first}".rstrip(), ""))
            for line in rest:
                self._print((" " * (width + 2) + line, ""))

    def line(self, values: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None:
        """Print one log interval: `episode`, then all other values in their order.

        A file gets the details and the time left too; a terminal shows the time left in its bar.
        """
        texts = {name: _text(value) for name, value in values.items()}
        episode = min(int(values["episode"]), self._total)
        if self._bar:
            self._print_row(texts | {"episode": f"{episode:,}"})
            return
        del texts["episode"]
        texts |= {name: _text(value) for name, value in (details or {}).items()}
        fields = [f"{name} {text}" for name, text in texts.items()]
        for line in fold([f"episode {episode}/{self._total}", f"{duration(self._left())} left", *fields]):
            self._print((line, ""))

    def progress(self, episode: int, seconds: float) -> None:
        """Update the bar and the estimate of the time left. seconds: of training, without evaluations and saves."""
        if not self._marks:
            self._first_mark = (seconds, self._clock())
        self._marks.append((min(episode, self._total), seconds))
        if self._bar:
            share = seconds / self._limit if self._limit else 0.0
            self._bar.move(min(episode, self._total), share, f"{duration(self._left())} left")

    def task(self, text: str) -> None:
        """Show beside the bar what is done between two cycles; an empty text when it is finished."""
        if self._bar:
            self._bar.show_task(text)

    def note(self, text: str, warning: bool = False) -> None:
        """Print one line of text."""
        self._print((text, NOTE if warning else ""))

    def summary(self, title: str, rows: Sequence[Sequence[Any]]) -> None:
        """Print a table under a title: the first column left-aligned, the others (mostly numbers) right-aligned."""
        table = [[_text(cell) for cell in row] for row in rows]
        columns = max(map(len, table), default=0)
        table = [row + [""] * (columns - len(row)) for row in table]
        widths = [max(len(row[i]) for row in table) for i in range(columns)]
        self._print((title, HEADER))
        for row in table:
            cells = [row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, columns))]
            self._print((f"  {'  '.join(cells)}".rstrip(), ""))

    def commands(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print what each command is for, and the command: in one piece, so that it can be pasted."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, command in rows:
            self._print((name.ljust(width), NAME), ("  ", ""), (command, COMMAND))

    def close(self) -> None:
        """Remove the bar and release the terminal; a second call does nothing."""
        if self._bar:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> "Console":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _left(self) -> float:
        """Seconds to the end, at the present speed, with the share of evaluations and saves up to now."""
        if not self._marks:
            return math.nan
        seconds = self._marks[-1][1]
        left = time_left(self._marks, self._total)
        if self._limit:
            by_limit = max(0.0, self._limit - seconds)
            left = by_limit if math.isnan(left) else min(left, by_limit)
        trained, passed = seconds - self._first_mark[0], self._clock() - self._first_mark[1]
        return left * max(1.0, passed / trained) if trained > 0 else left

    def _print_row(self, texts: Mapping[str, str]) -> None:
        """A row of the table, with a header if it is due or if the columns have changed."""
        widths = {name: max(len(name), len(text), COLUMN, self._widths.get(name, 0)) for name, text in texts.items()}
        names = list(widths)
        while len(names) > 1 and sum(widths[name] + 2 for name in names) - 2 > self._bar.width:
            names.pop()  # the last columns are the least important ones
        if self._rows % HEADER_EVERY == 0 or widths != self._widths:
            self._rows, self._widths = 0, widths
            self._print(("  ".join(name.rjust(widths[name]) for name in names), HEADER))
        self._rows += 1
        pieces: list[Piece] = []
        for name in names:
            pieces += [("  " if pieces else "", ""), (texts[name].rjust(widths[name]), _style(name, texts[name]))]
        self._print(*pieces)

    def _print(self, *pieces: Piece) -> None:
        if self._bar:
            self._bar.print_above(pieces)
        else:
            text = "".join(text for text, _ in pieces).rstrip()
            print(text, file=self._stream, flush=True)  # flushed: a log file is watched while it grows


class Quiet:
    """A console that prints nothing; for all ranks but 0."""

    def banner(self, rows: Sequence[tuple[str, str]]) -> None: ...
    def line(self, values: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None: ...
    def progress(self, episode: int, seconds: float) -> None: ...
    def task(self, text: str) -> None: ...
    def note(self, text: str, warning: bool = False) -> None: ...
    def summary(self, title: str, rows: Sequence[Sequence[Any]]) -> None: ...
    def commands(self, rows: Sequence[tuple[str, str]]) -> None: ...
    def close(self) -> None: ...

    def __enter__(self) -> "Quiet":
        return self

    def __exit__(self, *_: object) -> None: ...


class _Bar:
    """rich's progress bar. Our calls draw it, no thread does, and it leaves nothing on the screen at the end."""

    def __init__(self, stream: TextIO, total: int, start: int, clock: Callable[[], float]):
        from rich import console, progress, text

        self._clock, self._drawn, self._Text = clock, -math.inf, text.Text
        self._total = max(1, total)
        self._bar = progress.Progress(
            progress.TextColumn("episode {task.fields[episode]:,}/{task.fields[total_episodes]:,}"),
            progress.BarColumn(),
            progress.TextColumn("{task.percentage:.0f} %  {task.fields[status]}"),
            console=console.Console(file=stream),  # respects NO_COLOR
            transient=True,
            auto_refresh=False,
            redirect_stdout=stream is sys.stdout,
            redirect_stderr=sys.stderr.isatty(),  # else `2> file` would not get its lines
        )
        self._left = "starting"
        self._task = self._bar.add_task("", total=1.0, episode=start, total_episodes=total, status=self._left)
        self._bar.update(self._task, completed=start / self._total)
        self._bar.start()

    @property
    def width(self) -> int:
        """Columns for the table."""
        return min(WIDTH, self._bar.console.width)

    def move(self, episode: int, share: float, left: str) -> None:
        self._left = left
        self._draw(completed=max(share, episode / self._total), episode=episode, status=left)

    def show_task(self, text: str) -> None:
        self._draw(status=text or self._left)

    def _draw(self, **fields: Any) -> None:
        now = self._clock()
        self._bar.update(self._task, **fields)
        if now - self._drawn >= REFRESH:
            self._drawn = now
            self._bar.refresh()

    def print_above(self, pieces: Sequence[Piece]) -> None:
        # Without markup: [red] in a text is plain text. The terminal wraps it, so that it can be copied in one piece.
        text = self._Text()
        for part, style in pieces:
            text.append(part, style or None)
        text.rstrip()
        self._bar.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


def time_left(marks: Sequence[tuple[int, float]], total: int) -> float:
    """Seconds to the last episode, at the speed between the first and the last mark (episode, time); nan if unknown."""
    (first, since), (episode, now) = marks[0], marks[-1]
    if episode >= total:
        return 0.0
    if episode <= first or now <= since:
        return math.nan
    return (total - episode) * (now - since) / (episode - first)


def fold(fields: Sequence[str]) -> list[str]:
    """The fields joined by ` | ` into lines of at most WIDTH columns; all lines but the first are indented."""
    lines: list[str] = []
    for field in fields:
        if lines and len(lines[-1]) + 3 + len(field) <= WIDTH:
            lines[-1] += f" | {field}"
        else:
            lines.append(f"  | {field}" if lines else field)
    return lines


def _style(name: str, text: str) -> str:
    """The colour of a cell: that of `won` says how well it goes."""
    if name != "won" or not text.endswith("%"):
        return ""
    share = float(text[:-1])
    return "green" if share >= 50 else "yellow" if share >= 20 else "red"


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
