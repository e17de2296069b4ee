"""The canvas that all pictures are drawn on, and their common colours."""

import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from arena.files import atomic_path, cannot_write
from arena.render.fonts import font_for

Point = tuple[float, float]
Colour = tuple[int, int, int]

SCALE = 2  # pixels per unit of length: pictures are sharp on screens with small pixels
PAPER, INK, FAINT, LINE = (252, 252, 250), (32, 36, 44), (116, 122, 132), (222, 224, 226)


def text_width(text: str, size: int) -> float:
    """The length of a text whose letters are `size` units high, in units."""
    return font_for(text, size * SCALE).getlength(text) / SCALE


def save_png(path: Path, image: Image.Image) -> None:
    """Write a picture, as a whole or not at all; ArenaError, in one line, if that fails."""
    try:
        with atomic_path(path) as draft:
            image.save(draft, format="PNG")
    except (OSError, ValueError) as error:  # ValueError: no file name, or a zero byte in it
        raise cannot_write(path, error) from None


class Canvas:
    """Draws on an image; all lengths and places are in units of SCALE pixels."""

    def __init__(self, image: Image.Image) -> None:
        self._image = image
        self._draw = ImageDraw.Draw(image)

    def text(self, at: Point, text: str, size: int, colour: Colour, anchor: str) -> None:
        """Text at a place, its letters `size` units high; the anchor is Pillow's, such as "lm" for left and middle."""
        self._draw.text((at[0] * SCALE, at[1] * SCALE), text, colour, font_for(text, size * SCALE), anchor)

    def upright_text(self, at: Point, text: str, size: int, colour: Colour) -> None:
        """Text rotated by 90 degrees, which reads upwards; `at` is its lower middle."""
        # The height of the font, not of these letters: all names share one baseline.
        font = font_for(text, size * SCALE)
        ascent, descent = font.getmetrics()
        mask = Image.new("L", (math.ceil(font.getlength(text)), ascent + descent))
        ImageDraw.Draw(mask).text((0, ascent), text, 255, font, "ls")
        mask = mask.rotate(90, expand=True)
        corner = (round(at[0] * SCALE - mask.width / 2), round(at[1] * SCALE - mask.height))
        self._image.paste(colour, corner, mask)

    def box(self, corners: Sequence[float], colour: Colour, radius: float) -> None:
        """A filled box with round corners; corners are left, top, right, bottom."""
        self._draw.rounded_rectangle([v * SCALE for v in corners], radius * SCALE, colour)

    def line(self, ends: Sequence[float], colour: Colour, width: int) -> None:
        """A line from x, y to x, y."""
        self._draw.line([v * SCALE for v in ends], colour, width * SCALE)

    def area(self, corners: Sequence[Point], colour: Colour, opacity: float) -> None:
        """A filled polygon that lets through what is below it."""
        mask = Image.new("L", self._image.size)
        ImageDraw.Draw(mask).polygon([(x * SCALE, y * SCALE) for x, y in corners], round(255 * opacity))
        self._image.paste(colour, (0, 0), mask)

    def dot(self, at: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        x, y = at
        self._draw.ellipse([v * SCALE for v in (x - radius, y - radius, x + radius, y + radius)], colour)
