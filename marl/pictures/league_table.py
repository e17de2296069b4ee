"""The picture of a league: a table of points, row against column, and the ratings beside it."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image

from arena.render.theme import blend
from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, text_width

if TYPE_CHECKING:
    from opponents.round_robin import Table

CELL_WIDTH, CELL_HEIGHT, GAP = 76, 46, 2
MARGIN, TITLE, CHART, NUMBER = 32, 74, 230, 124
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 17, 14, 22
NAME_MAX = 28  # letters

NO_MATCHES = (246, 246, 244)
# Colour-blind people can tell the two apart, and both are dark enough at the ends for white letters.
WON, EVEN, LOST = (30, 98, 176), (236, 236, 234), (201, 88, 20)


def draw(table: "Table") -> Image.Image:
    """Draw a league, best player on top."""
    order = table.order()
    names = [_shortened(table.names[i]) for i in order]
    longest = math.ceil(max(text_width(name, TEXT_SIZE) for name in names))
    left = MARGIN + longest + 14
    # Column names that do not fit above their cells are rotated.
    upright = longest > CELL_WIDTH - 6
    top = TITLE + MARGIN + (longest if upright else TEXT_SIZE) + 12
    chart = left + CELL_WIDTH * len(order) + 36
    size = (chart + NUMBER + CHART + MARGIN, top + CELL_HEIGHT * len(order) + MARGIN + 30)
    image = Image.new("RGB", (size[0] * SCALE, size[1] * SCALE), PAPER)
    canvas = Canvas(image)

    canvas.text((MARGIN, MARGIN + 10), "League", TITLE_SIZE, INK, "lm")
    about = f"points that row took from column, in percent · {table.matches_per_pair} matches per pair"
    canvas.text((MARGIN, MARGIN + 38), about, SMALL_SIZE, FAINT, "lm")
    points = table.points
    for at, i in enumerate(order):
        y = top + CELL_HEIGHT * at
        canvas.text((left - 14, y + (CELL_HEIGHT - GAP) / 2), names[at], TEXT_SIZE, INK, "rm")
        x = left + CELL_WIDTH * (at + 0.5)
        if upright:
            canvas.upright_text((x, top - 12), names[at], TEXT_SIZE, INK)
        else:
            canvas.text((x, top - 12), names[at], TEXT_SIZE, INK, "ms")
        for across, j in enumerate(order):
            _cell(canvas, left + CELL_WIDTH * across, y, points[i, j])
    _ratings(canvas, table, order, chart, top)
    return image


def _cell(canvas: Canvas, x: float, y: float, points: float) -> None:
    corners = (x, y, x + CELL_WIDTH - GAP, y + CELL_HEIGHT - GAP)
    if math.isnan(points):
        canvas.box(corners, NO_MATCHES, 4)
        return
    strength = abs(2 * points - 1)
    colour = blend(EVEN, WON if points >= 0.5 else LOST, strength)
    canvas.box(corners, colour, 4)
    ink = (255, 255, 255) if strength > 0.65 else INK
    canvas.text((x + (CELL_WIDTH - GAP) / 2, y + (CELL_HEIGHT - GAP) / 2), f"{100 * points:.1f}", TEXT_SIZE, ink, "mm")


def _ratings(canvas: Canvas, table: "Table", order: Sequence[int], x: float, top: float) -> None:
    """Each rating and its margin: as numbers, and as a dot with its interval."""
    bottom = top + CELL_HEIGHT * len(order)
    canvas.text((x + 52, top - 12), "rating", TEXT_SIZE, INK, "rs")
    low = min(table.ratings - table.margins)
    high = max(table.ratings + table.margins)
    step = _round_step((high - low) / 3)
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step

    def place(rating: float) -> float:
        return x + NUMBER + CHART * (rating - first) / (last - first)

    for mark in range(first, last + 1, step):
        canvas.line((place(mark), top, place(mark), bottom), LINE, 1)
        canvas.text((place(mark), bottom + 12), str(mark), SMALL_SIZE, FAINT, "mt")
    for at, i in enumerate(order):
        y = top + CELL_HEIGHT * at + (CELL_HEIGHT - GAP) / 2
        rating, margin = float(table.ratings[i]), float(table.margins[i])
        canvas.text((x + 52, y), f"{rating:.0f}", TEXT_SIZE, INK, "rm")
        canvas.text((x + 60, y + 1), f"± {margin:.0f}", SMALL_SIZE, FAINT, "lm")
        canvas.line((place(rating - margin), y, place(rating + margin), y), blend(PAPER, WON, 0.45), 6)
        canvas.dot((place(rating), y), 3.5, WON)


def _round_step(width: float) -> int:
    """The smallest of 10, 20, 50, 100, ... not below `width`."""
    power = 10
    while True:
        for factor in (1, 2, 5):
            if factor * power >= width:
                return factor * power
        power *= 10


def _shortened(name: str) -> str:
    # The end of a path says more than its beginning.
    return name if len(name) <= NAME_MAX else "..." + name[3 - NAME_MAX :]
