"""What the pictures are drawn with: a pen, and the colours they have in common."""

import math

from PIL import Image, ImageDraw

SCALE = 2  # of all lengths, so that pictures are sharp on fine screens
PAPER, INK, FAINT, LINE = (252, 252, 250), (32, 36, 44), (116, 122, 132), (222, 224, 226)


class Pen:
    """Draws in lengths before SCALE."""

    def __init__(self, image: Image.Image) -> None:
        self._image = image
        self._draw = ImageDraw.Draw(image)

    def text(self, at, text, font, colour, anchor) -> None:
        self._draw.text([v * SCALE for v in at], text, colour, font, anchor)

    def upright(self, at, text, font, colour) -> None:
        """Text that reads from below to above and ends `at` its lower middle."""
        # As high as the font, not as these letters, so that all names stand on one line.
        ascent, descent = font.getmetrics()
        mask = Image.new("L", (math.ceil(font.getlength(text)), ascent + descent))
        ImageDraw.Draw(mask).text((0, ascent), text, 255, font, "ls")
        mask = mask.rotate(90, expand=True)
        corner = (round(at[0] * SCALE - mask.width / 2), round(at[1] * SCALE - mask.height))
        self._image.paste(colour, corner, mask)

    def box(self, corners, colour, radius) -> None:
        self._draw.rounded_rectangle([v * SCALE for v in corners], radius * SCALE, colour)

    def line(self, ends, colour, width) -> None:
        self._draw.line([v * SCALE for v in ends], colour, width * SCALE)

    def dot(self, at, radius, colour) -> None:
        x, y = at
        self._draw.ellipse([v * SCALE for v in (x - radius, y - radius, x + radius, y + radius)], colour)
