"""The picture of a run's learning curve: the share of matches won against each opponent, by episode and by time."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from PIL import Image

from marl.cli.wording import duration
from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, Point

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 440, 64, 140, 76, 68
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 16, 14, 22
NAME_GAP = 18  # least distance between two names at the ends of their lines
TICKS = 5  # of the episodes, at the most
BAND = 0.15  # opacity of an interval
UNIT_GAP = 46  # from the last tick to the words behind the axis
PREFIX, LOW, HIGH = "eval/win_rate_", "eval_low/", "eval_high/"
# Colour-blind people can tell them apart. In the order of the opponents.
COLOURS = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233), (70, 70, 70),
    (140, 86, 75),
)  # fmt: skip


class Measured(NamedTuple):
    """One evaluation against one opponent."""

    step: int  # episode
    share: float  # of the matches won
    low: float  # ends of the 95 % interval; the share itself in runs of earlier versions
    high: float


def draw(run: str, lines: Iterable[dict[str, Any]]) -> Image.Image | None:
    """Draw the evaluations in the metric lines of a run; None if there were none."""
    lines = list(lines)
    curves = read_curves(lines)
    if not curves:
        return None
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
    canvas = Canvas(image)
    last = max(point.step for points in curves.values() for point in points) or 1

    def place(step: float, share: float) -> Point:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    coloured = list(zip(curves.items(), COLOURS * len(curves), strict=False))
    for (_, points), colour in coloured:
        canvas.area(
            [*(place(p.step, p.high) for p in points), *(place(p.step, p.low) for p in reversed(points))],
            colour,
            BAND,
        )
    canvas.text((LEFT, 28), "Matches won", TITLE_SIZE, INK, "lm")
    canvas.text((LEFT, 54), f"against each opponent, with 95 % intervals; {run}", SMALL_SIZE, FAINT, "lm")
    for percent in range(0, 101, 25):
        x, y = place(0, percent / 100)
        canvas.line((x, y, WIDTH - RIGHT, y), LINE, 1)
        canvas.text((x - 10, y), f"{percent} %", SMALL_SIZE, FAINT, "rm")
    times = [(line["step"], line["time/seconds"]) for line in lines if line.get("time/seconds") is not None]
    for step in ticks(last):
        x, y = place(step, 0)
        canvas.text((x, y + 12), f"{step:,}", SMALL_SIZE, FAINT, "mt")
        if times:
            canvas.text((x, y + 32), duration(time_at(times, step)), SMALL_SIZE, FAINT, "mt")
    canvas.text((WIDTH - RIGHT + UNIT_GAP, HEIGHT - BOTTOM + 12), "episodes", SMALL_SIZE, FAINT, "lt")
    if times:
        canvas.text((WIDTH - RIGHT + UNIT_GAP, HEIGHT - BOTTOM + 32), "of training", SMALL_SIZE, FAINT, "lt")
    ends = []
    for (name, points), colour in coloured:
        places = [place(point.step, point.share) for point in points]
        for begin, end in pairwise(places):
            canvas.line((*begin, *end), colour, 2)
        for at in places:
            canvas.dot(at, 2.5, colour)
        ends.append((places[-1][1], f"{name} {points[-1].share:.0%}", colour))
    for y, (wanted, name, colour) in zip(spread([y for y, _, _ in sorted(ends)]), sorted(ends), strict=True):
        canvas.line((WIDTH - RIGHT + 1, wanted, WIDTH - RIGHT + 8, y), colour, 1)
        canvas.text((WIDTH - RIGHT + 10, y), name, TEXT_SIZE, colour, "lm")
    return image


def read_curves(lines: Iterable[dict[str, Any]]) -> dict[str, list[Measured]]:
    """The evaluations in metric lines, by opponent."""
    curves: dict[str, list[Measured]] = {}
    for line in lines:
        for tag, share in line.items():
            if tag.startswith(PREFIX) and share is not None:
                name = tag.removeprefix(PREFIX)
                low, high = line.get(LOW + name), line.get(HIGH + name)
                interval = (share, share) if low is None or high is None else (low, high)
                curves.setdefault(name, []).append(Measured(line["step"], share, *interval))
    return curves


def ticks(last: int) -> list[int]:
    """Round numbers from 0 to `last` for an axis."""
    least = last / TICKS
    unit = 10 ** math.floor(math.log10(max(1.0, least)))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= least)
    return list(range(0, last + 1, step))


def time_at(times: Sequence[tuple[int, float]], step: float) -> float:
    """The training seconds at a step, between the (step, seconds) that are known."""
    before = max((each for each in times if each[0] <= step), default=(0, 0.0))
    after = min((each for each in times if each[0] > step), default=None)
    if after is None:
        return before[1]
    return before[1] + (after[1] - before[1]) * (step - before[0]) / (after[0] - before[0])


def spread(heights: Sequence[float]) -> list[float]:
    """The sorted heights, moved apart by at least NAME_GAP: as little as possible, and to both sides."""
    groups: list[list[float]] = []  # of names that touch: sum of their wished first heights, and how many
    for wanted in heights:
        groups.append([wanted, 1])
        while len(groups) > 1 and _start(groups[-2]) + groups[-2][1] * NAME_GAP > _start(groups[-1]):
            total, count = groups.pop()
            groups[-1][0] += total - count * groups[-1][1] * NAME_GAP
            groups[-1][1] += count
    return [_start(group) + i * NAME_GAP for group in groups for i in range(int(group[1]))]


def _start(group: list[float]) -> float:
    return group[0] / group[1]
