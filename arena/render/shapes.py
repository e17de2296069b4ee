"""Shapes in pixels: lines with round ends. The distance of each pixel to them gives smooth edges at every size.

A dot is a line that ends where it starts. Places and radii are in cells, from the middle of the upper left cell. The
picture is a torus: what leaves it on one side comes in on the other. Pillow's ImageDraw draws without smooth edges.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from arena.jit import njit

ROW, COLUMN, END_ROW, END_COLUMN, RADIUS, END_RADIUS, HOLE, ALPHA, COLOUR, END_COLOUR = (*range(9), 11)
STROKE = 14  # numbers of a line: those above, colours have three
RADIUS_STEPS = 4  # per pixel; with more, bodies that grow longer change in more pixels and a GIF gets larger


def lines(starts: Any, ends: Any, radii: Any, colours: Any, alpha: float = 1.0, hole: Any = 0.0) -> np.ndarray:
    """Lines [n, STROKE] from places to places [n, 2]; radii and colours are pairs: at the starts and at the ends."""
    made = np.empty((len(starts), STROKE), np.float32)
    made[:, ROW : COLUMN + 1], made[:, END_ROW : END_COLUMN + 1] = starts, ends
    made[:, RADIUS], made[:, END_RADIUS] = radii
    made[:, HOLE], made[:, ALPHA] = hole, alpha
    made[:, COLOUR : COLOUR + 3], made[:, END_COLOUR : END_COLOUR + 3] = colours
    return made


def dots(places: Any, radius: Any, colour: Any, alpha: float = 1.0, hole: Any = 0.0) -> np.ndarray:
    """Dots of one kind; with a hole they are rings."""
    return lines(places, places, (radius, radius), (colour, colour), alpha, hole)


def draw(picture: np.ndarray, shapes: Sequence[np.ndarray], cell: float) -> None:
    """Draw shapes onto a picture [H, W, 3] uint8 in cells of `cell` pixels, each onto those before it.

    A shape is one or several lines of one opacity. Where they overlap, the line counts in which a pixel lies deepest.
    """
    ends = np.cumsum([len(shape) for shape in shapes])
    depth, tint = np.zeros(picture.shape[:2], np.float32), np.empty(picture.shape, np.float32)
    _draw(picture, depth, tint, np.concatenate(shapes), ends, float(cell))


@njit
def _draw(picture, depth, tint, strokes, ends, cell):
    first = 0
    for end in ends:
        for i in range(first, end):
            _cover(depth, tint, strokes, i, cell)
        for i in range(first, end):
            _blend(picture, depth, tint, strokes, i, cell)
        first = end


@njit
def _span(strokes, i, axis, cell):
    """The pixels that a line reaches along an axis: the first one, and the one after the last."""
    start, end = strokes[i, ROW + axis], strokes[i, END_ROW + axis]
    reach = max(strokes[i, RADIUS], strokes[i, END_RADIUS]) + 1 / cell
    low, high = (min(start, end) - reach + 0.5) * cell, (max(start, end) + reach + 0.5) * cell
    return math.floor(low), math.ceil(high)


@njit
def _cover(depth, tint, strokes, i, cell):
    """Note how deep every pixel lies in a line, and the colour there, unless it lies deeper in a line before.

    Depths are in pixels, 0.5 on the edge: up to 1 they are the fraction of the pixel that is covered.
    """
    rows, columns = depth.shape
    top, bottom = _span(strokes, i, 0, cell)
    left, right = _span(strokes, i, 1, cell)
    # From here on in pixels.
    start_y, start_x = (strokes[i, ROW] + 0.5) * cell - 0.5, (strokes[i, COLUMN] + 0.5) * cell - 0.5
    down, across = (strokes[i, END_ROW] - strokes[i, ROW]) * cell, (strokes[i, END_COLUMN] - strokes[i, COLUMN]) * cell
    per_square = 1 / max(down * down + across * across, 1e-6)
    radius, hole = strokes[i, RADIUS] * cell, strokes[i, HOLE] * cell
    wider = strokes[i, END_RADIUS] * cell - radius
    for y in range(top, bottom):
        row, column = y % rows, (left - 1) % columns
        for x in range(left, right):
            column = column + 1 if column + 1 < columns else 0
            off_y, off_x = y - start_y, x - start_x
            way = min(max((off_y * down + off_x * across) * per_square, 0.0), 1.0)
            off_y, off_x = off_y - way * down, off_x - way * across
            rim = math.floor((radius + wider * way) * RADIUS_STEPS + 0.5) / RADIUS_STEPS + 0.5
            square = off_y * off_y + off_x * off_x
            if square >= rim * rim:
                continue
            distance = math.sqrt(square)
            deep = rim - distance
            if hole > 0:
                deep = min(deep, 1.0) - min(max(hole - distance + 0.5, 0.0), 1.0)
            if deep > depth[row, column]:
                depth[row, column] = deep
                for channel in range(3):
                    first, last = strokes[i, COLOUR + channel], strokes[i, END_COLOUR + channel]
                    tint[row, column, channel] = first + (last - first) * way


@njit
def _blend(picture, depth, tint, strokes, i, cell):
    """Put what is noted onto the pixels of a line, and take the note back: a shape covers a pixel once."""
    rows, columns = depth.shape
    top, bottom = _span(strokes, i, 0, cell)
    left, right = _span(strokes, i, 1, cell)
    for y in range(top, bottom):
        row, column = y % rows, (left - 1) % columns
        for _ in range(left, right):
            column = column + 1 if column + 1 < columns else 0
            deep = depth[row, column]
            if deep > 0:
                depth[row, column] = 0
                covered = min(deep, 1.0) * strokes[i, ALPHA]
                for channel in range(3):
                    below = picture[row, column, channel]
                    mixed = below + covered * (tint[row, column, channel] - below)
                    picture[row, column, channel] = np.uint8(mixed + 0.5)
