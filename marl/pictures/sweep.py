"""The picture of a sweep: how much each option mattered, and the win rate of every trial by the option's value."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from PIL import Image

from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas

COMPLETE, PRUNED = (0, 114, 178), (190, 192, 196)
PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 300, 190, 3
BAR_ROW, NAME_WIDTH, MARGIN, TITLE = 26, 170, 24, 74
TITLE_SIZE, TEXT_SIZE, PANEL_TITLE_SIZE, SMALL_SIZE = 22, 15, 14, 12
LEFT, TOP, BOTTOM = 40, 30, 30  # margins of a panel


class Dot(NamedTuple):
    """A trial: its values by option, the win rate, and whether it was pruned."""

    params: Mapping[str, Any]
    rate: float
    is_pruned: bool


def draw(title: str, importances: Mapping[str, float], dots: Sequence[Dot], log_paths: Sequence[str]) -> Image.Image:
    """Draw the options in the order of their importance. log_paths: options with a logarithmic axis."""
    paths = list(importances) or list(dots[0].params if dots else ())
    columns = max(1, min(COLUMNS, len(paths)))
    rows = math.ceil(len(paths) / columns)
    bars = BAR_ROW * len(importances) + (MARGIN if importances else 0)
    width = PANEL_WIDTH * columns + 2 * MARGIN
    image = Image.new("RGB", (width * SCALE, (TITLE + bars + PANEL_HEIGHT * rows + MARGIN) * SCALE), PAPER)
    canvas = Canvas(image)
    canvas.text((MARGIN, 28), "What mattered", TITLE_SIZE, INK, "lm")
    canvas.text((MARGIN, 54), title, SMALL_SIZE, FAINT, "lm")
    most = max(importances.values(), default=1.0) or 1.0
    for i, (path, share) in enumerate(importances.items()):
        y = TITLE + BAR_ROW * (i + 0.5)
        canvas.text((MARGIN + NAME_WIDTH - 10, y), path, TEXT_SIZE, INK, "rm")
        length = max(2.0, (width - 2 * MARGIN - NAME_WIDTH - 60) * share / most)
        canvas.box((MARGIN + NAME_WIDTH, y - 8, MARGIN + NAME_WIDTH + length, y + 8), COMPLETE, 3)
        canvas.text((MARGIN + NAME_WIDTH + length + 8, y), f"{share:.0%}", SMALL_SIZE, FAINT, "lm")
    for i, path in enumerate(paths):
        corner = (MARGIN + PANEL_WIDTH * (i % columns), TITLE + bars + PANEL_HEIGHT * (i // columns))
        _panel(canvas, corner, path, dots, path in log_paths)
    return image


def _panel(canvas: Canvas, corner: tuple[float, float], path: str, dots: Sequence[Dot], is_log: bool) -> None:
    left, top = corner[0] + LEFT, corner[1] + TOP
    width, height = PANEL_WIDTH - LEFT - 16, PANEL_HEIGHT - TOP - BOTTOM
    canvas.text((left, corner[1] + 14), path, PANEL_TITLE_SIZE, INK, "lm")
    for percent in (0, 50, 100):
        y = top + height * (1 - percent / 100)
        canvas.line((left, y, left + width, y), LINE, 1)
        canvas.text((left - 6, y), str(percent), SMALL_SIZE, FAINT, "rm")
    values = [dot.params[path] for dot in dots if path in dot.params]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    names = [] if numeric else sorted(map(str, set(values)))
    places = [math.log(value) if is_log and numeric else value for value in values] if numeric else []
    low, high = (min(places, default=0.0), max(places, default=1.0)) if numeric else (0.0, max(1, len(names) - 1))
    for dot in dots:
        if path not in dot.params:
            continue
        value = dot.params[path]
        at = (math.log(value) if is_log else value) if numeric else names.index(str(value))
        x = left + width * ((at - low) / (high - low) if high > low else 0.5)
        canvas.dot((x, top + height * (1 - dot.rate)), 3.5, PRUNED if dot.is_pruned else COMPLETE)
    ends = (
        [f"{min(values):.3g}", f"{max(values):.3g}"] if numeric and values else [names[0], names[-1]] if names else []
    )
    for end, x, anchor in zip(ends, (left, left + width), ("lt", "rt"), strict=False):
        canvas.text((x, top + height + 8), end, SMALL_SIZE, FAINT, anchor)
