"""The picture of several runs or groups: a panel for each opponent, in it the learning curves of all of them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from marl.analysis.tables import letter
from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, save_png
from marl.pictures.learning_curve import BAND, COLOURS

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 430, 250, 2
LEFT, RIGHT, TOP, BOTTOM = 56, 40, 40, 40  # margins around the curves of a panel
TITLE, LEGEND_ROW, MARGIN = 70, 24, 24
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 16, 13, 22
LABEL_GAP = 14  # least distance between two labels at the ends of their curves
X_NAMES = {
    "episodes": "episodes", "steps": "env steps", "minutes": "minutes of training", "seconds": "seconds of training",
}  # fmt: skip


class Curve(NamedTuple):
    """The win rates of one run or group against one opponent."""

    name: str
    points: Sequence[tuple[float, float]]  # x, fraction of the matches won
    band: Sequence[tuple[float, float, float]] = ()  # x and the ends of an interval


def save_curves(file: Path, panels: Mapping[str, Sequence[Curve]], by: str) -> None:
    """Draw the curves of each opponent into a PNG file; the same runs, in the same order, in every panel."""
    runs = next(iter(panels.values()))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = PANEL_WIDTH * columns + 2 * MARGIN
    height = TITLE + PANEL_HEIGHT * rows + LEGEND_ROW * len(runs) + 2 * MARGIN
    image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
    canvas = Canvas(image)
    canvas.text((MARGIN, MARGIN + 10), "Matches won", TITLE_SIZE, INK, "lm")
    has_bands = any(curve.band for curves in panels.values() for curve in curves)
    bands = "; interquartile mean, 95 % interval over the seeds" if has_bands else "; one panel per opponent"
    canvas.text((MARGIN, MARGIN + 36), f"in percent, by {X_NAMES[by]}{bands}", SMALL_SIZE, FAINT, "lm")
    end = max((x for curves in panels.values() for curve in curves for x, _ in curve.points), default=0.0)
    axis = _ticks(end or 1.0)
    for i, (opponent, curves) in enumerate(panels.items()):
        corner = (MARGIN + PANEL_WIDTH * (i % columns), TITLE + MARGIN + PANEL_HEIGHT * (i // columns))
        _panel(canvas, corner, opponent, curves, axis)
    for i, curve in enumerate(runs):
        y = TITLE + MARGIN + PANEL_HEIGHT * rows + LEGEND_ROW * (i + 0.5)
        colour = COLOURS[i % len(COLOURS)]
        canvas.line((MARGIN, y, MARGIN + 28, y), colour, 3)
        canvas.text((MARGIN + 38, y), f"{letter(i)}  {curve.name}", TEXT_SIZE, INK, "lm")
    save_png(file, image)


def _panel(
    canvas: Canvas,
    corner: tuple[float, float],
    opponent: str,
    curves: Sequence[Curve],
    axis: Sequence[float],
) -> None:
    left, top = corner[0] + LEFT, corner[1] + TOP
    width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM

    def place(x: float, fraction: float) -> tuple[float, float]:
        return left + width * x / axis[-1], top + height * (1 - fraction)

    canvas.text((left, corner[1] + 20), f"against {opponent}", TEXT_SIZE, INK, "lm")
    for percent in range(0, 101, 25):
        x, y = place(0, percent / 100)
        canvas.line((x, y, left + width, y), LINE, 1)
        canvas.text((x - 8, y), f"{percent}", SMALL_SIZE, FAINT, "rm")
    for tick in axis:
        x, y = place(tick, 0)
        canvas.text((x, y + 8), f"{tick:,.10g}", SMALL_SIZE, FAINT, "mt")
    ends = []
    for i, curve in enumerate(curves):
        band = [place(x, high) for x, _, high in curve.band] + [place(x, low) for x, low, _ in reversed(curve.band)]
        if len(curve.band) > 1:
            canvas.area(band, COLOURS[i % len(COLOURS)], BAND)
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        places = [place(x, fraction) for x, fraction in curve.points]
        for begin, end in pairwise(places):
            canvas.line((*begin, *end), colour, 2)
        for at in places:
            canvas.dot(at, 2.5, colour)
        if places:
            ends.append((places[-1][1], places[-1][0], letter(i), colour))
    below = -math.inf
    for y, x, label, colour in sorted(ends):
        below = max(y, below + LABEL_GAP)  # labels never overlap
        canvas.text((x + 8, below), label, SMALL_SIZE, colour, "lm")


def _ticks(end: float) -> list[float]:
    """Round numbers from 0 to the first one that is not below `end`; about four steps."""
    power = 10 ** math.floor(math.log10(end / 4))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * 4 >= end * 0.999)
    return [step * i for i in range(math.ceil(end * 0.999 / step) + 1)]
