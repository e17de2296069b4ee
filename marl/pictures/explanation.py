"""The picture of why matches were lost: cells by cause, over turns, lengths and colours, and the lead by turn."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from PIL import Image

from marl.pictures.canvas import FAINT, INK, LINE, PAPER, SCALE, Canvas, Colour

WIDTH, HEIGHT, MARGIN, TITLE = 980, 680, 28, 84
PANEL_WIDTH, PANEL_HEIGHT = 440, 270
LEFT, TOP, BOTTOM = 44, 34, 30  # margins of a panel
LEGEND_ROW, BAR_FILL = 21, 0.7
TEXT, SMALL = 14, 12  # heights of letters
# Colour-blind people can tell them apart; heads of foes are shades of one colour. In the order of the causes.
COLOURS: dict[str, Colour] = {
    "foe's body": (0, 114, 178),
    "head of a longer foe": (160, 64, 0),
    "head of an equally long foe": (213, 94, 0),
    "head of a shorter foe": (240, 168, 104),
    "mate's body": (0, 158, 115),
    "mate's head": (122, 205, 178),
    "own body": (204, 121, 167),
    "reversal": (90, 90, 90),
    "unknown": (180, 182, 186),
}
Corner = tuple[float, float]


def draw(title: str, tables: Mapping[str, Any], mean_leads: Sequence[float]) -> Image.Image:
    """Draw the tables of an explanation (marl/analysis/explanation.py) of at least one lost match."""
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
    canvas = Canvas(image)
    canvas.text((MARGIN, 28), "Why matches were lost", 22, INK, "lm")
    canvas.text((MARGIN, 56), title, TEXT, FAINT, "lm")
    right, below = MARGIN + PANEL_WIDTH + 40, TITLE + PANEL_HEIGHT + 30
    lost = tables["lost"]
    _bars(canvas, (MARGIN, TITLE), "Cells lost per lost match, by turn", tables["by_turn"], lost)
    _bars(canvas, (right, TITLE), "by length of the snake", tables["by_length"], lost)
    _lead(canvas, (MARGIN, below), mean_leads)
    _legend(canvas, (right, below), tables)
    return image


def _bars(canvas: Canvas, corner: Corner, title: str, groups: Mapping[str, Any], lost: int) -> None:
    """A bar for each group, made of its causes."""
    left, top, width, height = _panel(canvas, corner, title)
    most = max(of["cells"] / lost for of in groups.values()) or 1.0
    for share in (0, 0.5, 1):
        y = top + height * (1 - share)
        canvas.line((left, y, left + width, y), LINE, 1)
        canvas.text((left - 6, y), f"{most * share:.1f}", SMALL, FAINT, "rm")
    step = width / len(groups)
    for i, (name, of) in enumerate(groups.items()):
        x, y = left + step * (i + 0.5), top + height
        for cause, cells in of["causes"].items():
            tall = height * cells / lost / most
            canvas.box((x - step * BAR_FILL / 2, y - tall, x + step * BAR_FILL / 2, y), COLOURS[cause], 0)
            y -= tall
        canvas.text((x, top + height + 8), name, SMALL, FAINT, "mt")


def _lead(canvas: Canvas, corner: Corner, leads: Sequence[float]) -> None:
    """The mean lead after each turn, with the numbers at turns 50, 100 and 150."""
    left, top, width, height = _panel(canvas, corner, "Mean lead, by turn")
    low, high = min(0.0, *leads), max(0.0, *leads)
    span = (high - low) or 1.0

    def place(turn: int) -> Corner:
        return left + width * turn / max(1, len(leads) - 1), top + height * (high - leads[turn]) / span

    zero = top + height * high / span
    canvas.line((left, zero, left + width, zero), FAINT, 1)
    canvas.text((left - 6, zero), "0", SMALL, FAINT, "rm")
    for begin, end in pairwise(range(len(leads))):
        canvas.line((*place(begin), *place(end)), COLOURS["foe's body"], 2)
    for turn in range(50, len(leads), 50):
        x, y = place(turn)
        canvas.dot((x, y), 4, COLOURS["foe's body"])
        canvas.text((x + 5, y - 5), f"{leads[turn]:+.1f}", SMALL, INK, "lb")
        canvas.text((x, top + height + 8), str(turn), SMALL, FAINT, "mt")


def _legend(canvas: Canvas, corner: Corner, tables: Mapping[str, Any]) -> None:
    """The causes with their share of the cells, in all, as red and as blue, and how much of it was boxed in."""
    columns = [corner[0] + x for x in (244, 304, 364, PANEL_WIDTH)]
    for x, word in zip(columns, ("of cells", "as red", "as blue", "boxed in"), strict=True):
        canvas.text((x, corner[1] + 14), word, SMALL, FAINT, "rm")
    colours = tables["by_colour"]
    rows = {
        **tables["causes"],
        "all": {key: sum(of[key] for of in tables["causes"].values()) for key in ("cells", "boxed_in_cells")},
    }
    total = rows["all"]["cells"]
    for i, (cause, of) in enumerate(rows.items()):
        y = corner[1] + TOP + LEGEND_ROW * (i + 0.5)
        if cause in COLOURS:
            canvas.box((corner[0], y - 6, corner[0] + 12, y + 6), COLOURS[cause], 2)
        canvas.text((corner[0] + 20, y), cause, TEXT, INK, "lm")
        by_colour = [
            (team["cells"] if cause == "all" else team["causes"].get(cause, 0), team["cells"])
            for team in (colours["red"], colours["blue"])
        ]
        parts = [(of["cells"], total), *by_colour, (of["boxed_in_cells"], of["cells"])]
        for x, (part, whole) in zip(columns, parts, strict=True):
            canvas.text((x, y), f"{part / whole:.0%}" if whole else "–", SMALL, INK, "rm")


def _panel(canvas: Canvas, corner: Corner, title: str) -> tuple[float, float, float, float]:
    """Write a panel's title; returns left, top, width and height of its drawing."""
    canvas.text((corner[0], corner[1] + 14), title, TEXT, INK, "lm")
    return corner[0] + LEFT, corner[1] + TOP, PANEL_WIDTH - LEFT, PANEL_HEIGHT - TOP - BOTTOM
