"""Words in pictures, in Pillow's own font."""

import functools
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arena.render.theme import Colour


def put_words(
    picture: np.ndarray,
    at: tuple[float, float],
    words: str,
    pixels: float,
    colour: Colour,
    anchor: str = "mm",
    times: int = 1,
) -> None:
    """Write words of a height onto a picture [H, W, 3], which is a torus; `at` is x and y, `anchor` as Pillow's.

    With `times` they are drawn so many times larger and reduced: they can move by less than a pixel.
    """
    (x, right), (y, below) = (divmod(round(line * times), times) for line in at)
    (left, top), mask = _words(words, round(pixels * times), anchor, times, (right, below))
    rows, columns = (np.arange(mask.shape[0]) + y + top), (np.arange(mask.shape[1]) + x + left)
    place = np.ix_(rows % picture.shape[0], columns % picture.shape[1])
    under = picture[place]
    picture[place] = under + mask[..., None] * (np.array(colour, np.float32) - under) + np.float32(0.5)


def shortened(words: str, pixels: int, width: float) -> str:
    """Words that fit into `width` pixels. Of long ones the end is kept: the end of a path tells more."""
    while _font(pixels).getlength(words) > width and len(words) > 4:
        words = "..." + words.removeprefix("...")[max(1, len(words) // 20) :]
    return words


@functools.lru_cache(64)
def _font(pixels: int) -> ImageFont.FreeTypeFont:
    found = ImageFont.load_default(pixels)
    assert isinstance(found, ImageFont.FreeTypeFont)  # Pillow's bitmap font comes only without a size
    return found


@functools.lru_cache(512)
def _words(
    words: str, pixels: int, anchor: str, times: int, shift: tuple[int, int]
) -> tuple[tuple[int, int], np.ndarray]:
    """Words as an opacity, 0 to 1, and where its left upper corner is from the anchor."""
    box = _font(pixels).getbbox(words, anchor=anchor)
    left, top = (math.floor((low + by) / times) for low, by in zip(box[:2], shift, strict=True))
    right, bottom = (math.ceil((high + by) / times) for high, by in zip(box[2:], shift, strict=True))
    mask = Image.new("L", (max(1, right - left) * times, max(1, bottom - top) * times))
    at = (shift[0] - left * times, shift[1] - top * times)
    ImageDraw.Draw(mask).text(at, words, 255, _font(pixels), anchor)
    return (left, top), np.asarray(mask.reduce(times), np.float32) / 255
