"""The picture of `bench scaling`: the speed by number of ranks, measured and predicted, and where the time goes."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from PIL import Image

from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, Colour, load_font
from marl.pictures.learning_curve import COLOURS

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 1080, 440, 64, 76, 48, 90
CURVES, NAMES = 470, 120  # width of the curves, and of the names at their ends
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 15, 13, 22
NAME_GAP = 18  # least distance between two names
MEASURED = "measured"


def draw(report: Mapping[str, Any]) -> Image.Image:
    """Draw a report of marl.bench.scaling."""
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
    canvas = Canvas(image)
    small, title = load_font(SMALL_SIZE), load_font(TITLE_SIZE)
    canvas.text((LEFT, 28), "Speed by ranks", title, INK, "lm")
    about = f"env steps/s, times one rank; {report['algo']} on {report['device']}, {report['scaling']} scaling"
    canvas.text((LEFT, 54), about, small, FAINT, "lm")
    curves = {MEASURED: [(row["ranks"], row["ratio"]) for row in report["rows"]]}
    for each in report["model"]["predictions"]:
        curves.setdefault(f"model: {each['link']}", []).append((each["ranks"], each["ratio"]))
    _draw_curves(canvas, curves)
    _draw_shares(canvas, report["rows"])
    return image


def _draw_curves(canvas: Canvas, curves: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Both axes are logarithmic, base 2: a speed that grows with the ranks is a straight line."""
    small = load_font(SMALL_SIZE)
    points = [point for curve in curves.values() for point in curve]
    last = max(1, math.ceil(math.log2(max(ranks for ranks, _ in points))))
    low = math.floor(math.log2(min(1.0, *(ratio for _, ratio in points))))
    high = max(low + 1, math.ceil(math.log2(max(ratio for _, ratio in points))))

    def place(ranks: float, ratio: float) -> tuple[float, float]:
        x = LEFT + CURVES * math.log2(ranks) / last
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log2(ratio) - low) / (high - low)

    for power in range(low, high + 1):
        x, y = place(1, 2.0**power)
        canvas.line((x, y, LEFT + CURVES, y), LINE, 1)
        canvas.text((x - 10, y), f"{2.0**power:g}", small, FAINT, "rm")
    for power in range(last + 1):
        x, y = place(2**power, 2.0**low)
        canvas.text((x, y + 12), str(2**power), small, FAINT, "mt")
    ends = []
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        places = [place(ranks, ratio) for ranks, ratio in curve]
        for begin, end in pairwise(places):
            canvas.line((*begin, *end), colour, 3 if name == MEASURED else 1)
        for at in places:
            canvas.dot(at, 4 if name == MEASURED else 2.5, colour)
        ends.append((places[-1][1], name, colour))
    _draw_names(canvas, LEFT + CURVES + 10, ends)


def _draw_shares(canvas: Canvas, rows: Sequence[Mapping[str, Any]]) -> None:
    """One column per number of ranks, the parts on top of each other."""
    small, title = load_font(SMALL_SIZE), load_font(TITLE_SIZE)
    left = LEFT + CURVES + NAMES + GAP
    room = WIDTH - left - NAMES
    canvas.text((left, 28), "Where the time goes", title, INK, "lm")
    canvas.text((left, 54), "shares of the time, by ranks", small, FAINT, "lm")
    height = HEIGHT - TOP - BOTTOM
    step = room / len(rows)
    ends: list[tuple[float, str, Colour]] = []
    for number, row in enumerate(rows):
        x, y = left + step * number, float(HEIGHT - BOTTOM)
        ends = []
        for (name, share), colour in zip(row["shares"].items(), COLOURS, strict=False):
            if share > 0:
                canvas.box((x, y - height * share, x + 0.7 * step, y), colour, 0)
            ends.append((y - height * share / 2, name, colour))
            y -= height * share
        canvas.text((x + 0.35 * step, HEIGHT - BOTTOM + 12), str(row["ranks"]), small, FAINT, "mt")
    _draw_names(canvas, left + room, ends)


def _draw_names(canvas: Canvas, x: float, ends: Sequence[tuple[float, str, Colour]]) -> None:
    """Names at the heights of what they name; they never overlap."""
    text = load_font(TEXT_SIZE)
    below = 0.0
    for y, name, colour in sorted(ends):
        below = max(y, below + NAME_GAP)
        canvas.text((x, below), name, text, colour, "lm")
