"""Tables of the terminal: aligned columns, and numbers and settings as they stand in them."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from marl.cli.wording import in_one_line
from marl.config.values import as_written

NAME_MAX, SETTING_MAX = 28, 24  # letters


def print_rows(rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = (), gap: str = "  ") -> None:
    """Print aligned columns; those in `right` are aligned on the right."""
    rows = [tuple(map(in_one_line, row)) for row in rows]  # names of runs may hold terminal escapes
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (padded(cell, widths[i], i in right) for i, cell in enumerate(row))
        print(gap.join(cells).rstrip())


def display_width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a Chinese letter, none for an accent that joins a letter."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def padded(text: str, width: int, right: bool = False) -> str:
    """The text with blanks up to a width in columns; with `right`, before it."""
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def letter(number: int) -> str:
    """What stands for a run or a group in tables and pictures: A, B, ... Z, 27, ..."""
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def shortened(name: str, most: int = NAME_MAX) -> str:
    """A name of at most `most` letters; the beginning says most."""
    return name if len(name) <= most else name[: most - 3] + "..."


def setting_text(value: Any, most: int = SETTING_MAX) -> str:
    """The value of a setting, at most `most` letters; `-` where it is not read."""
    return shortened("-" if value is None else as_written(tuple(value) if isinstance(value, list) else value), most)


def amount(number: float) -> str:
    """A large number: `600 k`, `1.25 M`."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.0f}"


def training_time(seconds: float) -> str:
    """A time of training in one unit."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes:.0f} min" if minutes < 100 else f"{hours:.1f} h"
