"""Heads, beans, effects and words in film.py's pictures: sprites, each drawn once and then pasted.

Shapes are drawn larger than they are shown and then reduced, which gives smooth edges.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arena.render import scene
from arena.render.frame import (
    BEAN_COLOUR,
    BEAN_RADIUS,
    EYE_COLOUR,
    HEAD_RADIUS,
    PUPIL_COLOUR,
    SNAKE_COLOURS,
    STEPS,
)
from arena.rules import COLUMNS, ROWS

Colour = tuple[int, int, int]
Paint = Callable[[ImageDraw.ImageDraw, float, float], None]  # draws around x and y
PIXELS = 64  # about as many pixels per cell are drawn, before a shape is reduced
GLOW = ((0.55, 0.05), (0.47, 0.12), (0.39, 0.2), (0.31, 0.3))  # of a bean: radii in cells, and opacity
HEAD_REACH, BEAN_REACH, EFFECT_REACH = 0.5, 0.55, 1.7  # cells
WHITE = (255, 255, 255)


class Sprite(NamedTuple):
    """A picture with an opacity."""

    image: Image.Image
    mask: Image.Image


class Sprites:
    """The sprites for cells of `cell` pixels."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._times = max(2, round(PIXELS / cell))
        self._unit = cell * self._times  # pixels of a cell while it is drawn
        self._head = functools.cache(self._drawn_head)
        self._bean = functools.cache(self._drawn_bean)

    def put_head(self, board: Image.Image, snake: scene.Snake) -> None:
        """Draw a head onto a picture of the board."""
        for at, shift in self._spots(snake.head, HEAD_REACH):
            head = self._head(snake.number, snake.direction, snake.size, shift)
            board.paste(head.image, at, head.mask)

    def put_bean(self, board: Image.Image, bean: scene.Bean) -> None:
        """Draw a bean and its glow onto a picture of the board."""
        for at, shift in self._spots(bean.place, BEAN_REACH):
            sprite = self._bean(bean.size, shift)
            board.paste(sprite.image, at, sprite.mask)

    def put_effect(self, board: Image.Image, effect: scene.Effect) -> None:
        """Draw a ring that grows, and the change of the snake's length, onto a picture of the board."""
        unit, colour = self._unit, SNAKE_COLOURS[effect.snake] if effect.died else BEAN_COLOUR
        far = (0.45 + (1.1 if effect.died else 0.45) * effect.age) * unit
        width, lift = max(1, round(0.1 * unit * (1 - effect.age))), (0.8 + 0.4 * effect.age) * unit

        def paint(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
            draw.ellipse((x - far, y - far, x + far, y + far), outline=colour, width=width)
            if effect.change:
                draw.text((x, y - lift), f"{effect.change:+d}", WHITE, font(round(0.6 * unit)), "mm")

        for at, shift in self._spots(effect.place, EFFECT_REACH):
            sprite = self._drawn(EFFECT_REACH, shift, paint)
            board.paste(sprite.image, at, sprite.mask)

    def legend(self, snake: int, direction: int, ground: Colour) -> Image.Image:
        """The head of a snake, a little smaller than on the board."""
        side = round(0.9 * self._cell) * self._times
        image = Image.new("RGB", (side, side), ground)
        _draw_head(ImageDraw.Draw(image), (side / 2, side / 2), side, snake, STEPS[direction])
        return image.reduce(self._times)

    def _spots(
        self, place: Sequence[float] | np.ndarray, reach: float
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Where the sprites around a place belong, the copies across the edges of the board too.

        The left upper corner in pixels, and the parts of a pixel (the pixels that are drawn) that are left.
        """
        half = self._half(reach)
        for row, column in _copies(float(place[0]), float(place[1]), reach):
            (x, right), (y, down) = (divmod(round((line + 0.5) * self._unit), self._times) for line in (column, row))
            yield (x - half, y - half), (right, down)

    def _half(self, reach: float) -> int:
        """Half the side of a sprite in pixels."""
        return int(reach * self._cell) + 2

    def _drawn(self, reach: float, shift: tuple[int, int], paint: Paint) -> Sprite:
        middle = self._half(reach) * self._times
        image = Image.new("RGBA", (2 * middle, 2 * middle))
        paint(ImageDraw.Draw(image), middle + shift[0], middle + shift[1])
        small = image.reduce(self._times)
        return Sprite(small.convert("RGB"), small.getchannel("A"))

    def _drawn_head(self, snake: int, direction: int, size: float, shift: tuple[int, int]) -> Sprite:
        def paint(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
            _draw_head(draw, (x, y), self._unit * size, snake, STEPS[direction])

        return self._drawn(HEAD_REACH, shift, paint)

    def _drawn_bean(self, size: float, shift: tuple[int, int]) -> Sprite:
        def paint(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
            for radius, opacity in (*GLOW, (BEAN_RADIUS, 1.0)):
                far = radius * size * self._unit
                draw.ellipse((x - far, y - far, x + far, y + far), (*BEAN_COLOUR, round(255 * opacity)))

        return self._drawn(BEAN_REACH, shift, paint)


def _draw_head(
    draw: ImageDraw.ImageDraw, at: tuple[float, float], unit: float, snake: int, step: Sequence[int]
) -> None:
    """A head with its eyes and the number of the snake; `step` is its direction in rows and columns."""
    (x, y), (rows, columns) = at, step

    def disc(row: float, column: float, radius: float, colour: Colour) -> None:
        left, top, far = x + column * unit, y + row * unit, radius * unit
        draw.ellipse((left - far, top - far, left + far, top + far), colour)

    disc(0, 0, HEAD_RADIUS, SNAKE_COLOURS[snake])
    for side in (-1, 1):
        row, column = 0.13 * rows + 0.21 * side * columns, 0.13 * columns + 0.21 * side * rows
        disc(row, column, 0.15, EYE_COLOUR)
        disc(row + 0.06 * rows, column + 0.06 * columns, 0.085, PUPIL_COLOUR)
    centre = (x - 0.22 * columns * unit, y - 0.22 * rows * unit)
    draw.text(centre, str(snake), PUPIL_COLOUR, font(max(4, round(0.4 * unit))), "mm")


def _copies(row: float, column: float, reach: float) -> list[tuple[float, float]]:
    """A place, and its copies across the edges of the board where a shape around it reaches over them."""
    rows, columns = [row], [column]
    if row < reach:
        rows.append(row + ROWS)
    elif row > ROWS - 1 - reach:
        rows.append(row - ROWS)
    if column < reach:
        columns.append(column + COLUMNS)
    elif column > COLUMNS - 1 - reach:
        columns.append(column - COLUMNS)
    return [(r, c) for r in rows for c in columns]


@functools.lru_cache(64)
def font(pixels: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font."""
    found = ImageFont.load_default(pixels)
    assert isinstance(found, ImageFont.FreeTypeFont)  # Pillow's bitmap font comes only without a size
    return found


def put_words(image: Image.Image, at: tuple[int, int], words: str, pixels: int, colour: Colour, anchor: str) -> None:
    """Write words onto a picture; `anchor` as for ImageDraw.text."""
    (left, top), mask = _words(words, pixels, anchor)
    x, y = at[0] + left, at[1] + top
    image.paste(colour, (x, y, x + mask.width, y + mask.height), mask)


@functools.lru_cache(512)
def _words(words: str, pixels: int, anchor: str) -> tuple[tuple[int, int], Image.Image]:
    """Words as an opacity, and where its left upper corner is from the anchor."""
    left, top, right, bottom = font(pixels).getbbox(words, anchor=anchor)
    corner = int(np.floor(left)), int(np.floor(top))
    mask = Image.new("L", (max(1, int(np.ceil(right)) - corner[0]), max(1, int(np.ceil(bottom)) - corner[1])))
    ImageDraw.Draw(mask).text((-corner[0], -corner[1]), words, 255, font(pixels), anchor)
    return corner, mask


def shortened(words: str, pixels: int, width: float) -> str:
    """Words that fit into `width` pixels. Of long ones the end is kept: the end of a path tells more."""
    while font(pixels).getlength(words) > width and len(words) > 4:
        words = "..." + words.removeprefix("...")[max(1, len(words) // 20) :]
    return words
