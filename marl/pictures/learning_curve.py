"""The picture of a run's learning curve: the share of matches won against each opponent, by episode."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from PIL import Image

from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, load_font

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 420, 64, 130, 76, 48
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 16, 14, 22
NAME_GAP = 18  # least distance between two names at the ends of their lines
PREFIX = "eval/win_rate_"
# Colour-blind people can tell them apart. In the order of the opponents.
COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233), (70, 70, 70))


def draw(run: str, lines: Iterable[dict[str, Any]]) -> Image.Image | None:
    """Draw the evaluations in the metric lines of a run; None if there were none."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for tag, value in line.items():
            if tag.startswith(PREFIX) and value is not None:
                curves.setdefault(tag.removeprefix(PREFIX), []).append((line["step"], value))
    if not curves:
        return None
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
    canvas = Canvas(image)
    text, small, title = (load_font(size) for size in (TEXT_SIZE, SMALL_SIZE, TITLE_SIZE))
    last = max(step for points in curves.values() for step, _ in points) or 1

    def place(step: float, share: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    canvas.text((LEFT, 28), "Matches won", title, INK, "lm")
    canvas.text((LEFT, 54), f"against each opponent, by episode; {run}", small, FAINT, "lm")
    for percent in range(0, 101, 25):
        x, y = place(0, percent / 100)
        canvas.line((x, y, WIDTH - RIGHT, y), LINE, 1)
        canvas.text((x - 10, y), f"{percent} %", small, FAINT, "rm")
    for quarter in range(5):
        x, y = place(last * quarter / 4, 0)
        canvas.text((x, y + 12), f"{round(last * quarter / 4):,}", small, FAINT, "mt")
    ends = []
    for (name, points), colour in zip(curves.items(), COLOURS * len(curves), strict=False):
        places = [place(step, share) for step, share in points]
        for begin, end in pairwise(places):
            canvas.line((*begin, *end), colour, 2)
        for at in places:
            canvas.dot(at, 2.5, colour)
        ends.append((places[-1][1], f"{name} {points[-1][1]:.0%}", colour))
    below = 0.0
    for y, name, colour in sorted(ends):
        below = max(y, below + NAME_GAP)  # names never overlap
        canvas.text((WIDTH - RIGHT + 10, below), name, text, colour, "lm")
    return image
