"""Words and times in messages: singular and plural, sizes, durations, texts that are safe to print."""

import math
from collections.abc import Sized


def named_ranks(ranks: list[int]) -> str:
    """`rank 1`, or `ranks 1, 3`."""
    return f"{verb(ranks, 'rank', 'ranks')} {', '.join(map(str, ranks))}"


def verb(things: Sized, one: str, many: str) -> str:
    """`one` for one thing, `many` for several or none."""
    return one if len(things) == 1 else many


def in_one_line(text: str) -> str:
    """The text with `?` for every letter that is not printable: names of files may hold terminal escapes.

    As arena.errors.printable, but importing the arena loads Numba, which a mistake in the command line does without.
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def count(number: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size_text(size: float) -> str:
    """A number of bytes: `512 B`, `1.2 kB`, `119 MB`, `2.5 GB`."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.{0 if size >= 10 * factor else 1}f} {unit}"
    return f"{size:.0f} B"


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


def chinese_duration(seconds: float) -> str:
    """The same in Chinese: `3 分 20 秒`."""
    text = duration(seconds)
    for english, chinese in ((" min", " 分"), (" s", " 秒"), (" h", " 小时"), (" d", " 天")):
        text = text.replace(english, chinese)
    return text
