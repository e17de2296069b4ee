"""The bodies of snakes in film.py's pictures: discs along the body, drawn with numpy in all cells of several pictures.

The depth of a pixel in a disc, radius² - distance², is largest for the disc that the pixel lies deepest in, and 0 on
its edge. It is the sum of one part by rows and one by columns.
"""

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arena.render.frame import MARK_ALPHA, MARKS, NECK_RADIUS, PUPIL_COLOUR, SNAKE_COLOURS, TAIL_RADIUS, TAIL_SHADE
from arena.render.scene import SIZE, Snake, nearest_turn
from arena.rules import COLUMNS, ROWS, TEAM

LAYERS = 128  # a power of 2; of more discs in a cell, the last ones are not drawn
ABOVE = 5.0  # makes all depths positive: the bits of positive numbers are ordered as the numbers are
BLOCK = 1 << 21  # depths that are computed at once
RADIUS_STEPS = 4  # per pixel; with more, bodies that grow longer change in more pixels and a GIF gets larger
COLOURS, PUPIL = np.array(SNAKE_COLOURS, float), np.array(PUPIL_COLOUR, float)


class _Pairs(NamedTuple):
    """Pairs of a disc and a cell that it reaches, in layers.

    A layer has one pair of every cell that has not run out of them, cells with the most pairs first: its cells are the
    first ones of the layer before.
    """

    disc: np.ndarray  # [n]
    picture: np.ndarray  # [n]
    cell: np.ndarray  # [n, 2] row and column; beyond the edges of the board they go on
    ends: list[int]  # 0, and the end of every layer


def per_cell(cell: int) -> int:
    """Discs per cell of a body, dense enough for smooth bends in cells of `cell` pixels."""
    return min(10, round((1.5 * cell) ** 0.5))


def bodies(pictures: Sequence[Sequence[Snake]], cell: int) -> np.ndarray:
    """All bodies with their marks, without heads: pictures [n, H, W, 4] uint8 of red, green, blue and opacity."""
    drawn = np.zeros((len(pictures), ROWS, cell, COLUMNS, cell), "<u4")
    snakes = [snake for snakes in pictures for snake in snakes]
    if snakes:
        places, ways = (np.concatenate(parts) for parts in zip(*((s.places, s.ways) for s in snakes), strict=True))
        counts = [len(snake.places) for snake in snakes]
        radii = (NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * ways) * np.repeat([snake.size for snake in snakes], counts)
        radii = np.rint(radii * cell * RADIUS_STEPS) / (cell * RADIUS_STEPS)
        shades = np.repeat(COLOURS[[s.number for s in snakes]], counts, axis=0) * (1 + (TAIL_SHADE - 1) * ways)[:, None]
        colours = (np.rint(shades).astype(int) << (0, 8, 16)).sum(1).astype("<u4")
        tangents, ends = _tangents(places, np.cumsum(counts)[:-1], cell)

        pairs = _paired(places, radii + 0.5 / cell, np.repeat(_owners(pictures), counts))  # soft edges: one pixel
        middles = (places[pairs.disc] - pairs.cell).astype(np.float32)  # from the middle of the cell
        radii, tangents = radii[pairs.disc].astype(np.float32), tangents[pairs.disc].astype(np.float32)
        pair, depth = _deepest(radii, middles, pairs.ends, cell)
        opacity = _opacity(pair, depth, radii, middles, tangents, ends[pairs.disc], cell)
        pixels = colours[pairs.disc].take(pair) | opacity.astype("<u4") << 24
        cells = pixels.shape[1]
        rows, columns = (pairs.cell[:cells] % SIZE).astype(int).T
        drawn[pairs.picture[:cells], rows, :, columns] = pixels.reshape(cell, cell, -1).transpose(2, 0, 1)
    pixels = drawn.view(np.uint8).reshape(-1, ROWS * cell, COLUMNS * cell, 4)
    _draw_marks(pixels, pictures, cell)
    return pixels


def _draw_marks(drawn: np.ndarray, pictures: Sequence[Sequence[Snake]], cell: int) -> None:
    """Draw the marks on the segments of snakes in their whole size."""
    for of_team, (radius, hole) in enumerate(MARKS):
        alike = [[s for s in snakes if s.number % TEAM == of_team and s.size == 1] for snakes in pictures]
        places = [snake.marks for snakes in alike for snake in snakes]
        if radius and places:
            middle = (np.concatenate(places) + 0.5) * cell - 0.5
            reach = int(np.ceil(radius * cell + 0.5))
            near = np.floor(middle).astype(int)[..., None] + np.arange(1 - reach, reach + 1)
            square = (near - middle[..., None]) ** 2
            distance = np.sqrt(square[:, 0, :, None] + square[:, 1, None, :])
            cover = np.clip(radius * cell - distance + 0.5, 0, 1)
            if hole:
                cover -= np.clip(hole * cell - distance + 0.5, 0, 1)
            rows, columns = near[:, 0] % (ROWS * cell), near[:, 1] % (COLUMNS * cell)
            picture = np.repeat(_owners(alike), [len(of_snake) for of_snake in places])
            index = picture[:, None, None], rows[:, :, None], columns[:, None, :]
            pixels = drawn[index]
            pixels[..., :3] = pixels[..., :3] + MARK_ALPHA * cover[..., None] * (PUPIL - pixels[..., :3]) + 0.5
            drawn[index] = pixels


def _owners(pictures: Sequence[Sequence[Snake]]) -> np.ndarray:
    """The number of the picture of every snake."""
    return np.repeat(np.arange(len(pictures)), [len(snakes) for snakes in pictures])


def _tangents(places: np.ndarray, firsts: np.ndarray, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """The direction of the body at every disc, of length 1, and whether the disc is an end of a body or at a gap.

    At an end it is the direction into the body; 0 for a disc that stands alone. firsts: the first disc of every body
    but the first body.
    """
    steps = np.zeros((len(places) + 1, 2))
    steps[1:-1] = nearest_turn(np.diff(places, axis=0))
    joined = np.abs(steps).max(1) < 1.5 / per_cell(cell)
    joined[[0, *firsts, -1]] = False
    steps *= joined[:, None]
    ends = ~(joined[1:] & joined[:-1])
    ahead = steps[1:] + np.where(joined[1:], 1, -1)[:, None] * steps[:-1]
    return ahead / np.maximum(np.hypot(*ahead.T), 1e-9)[:, None], ends


def _paired(places: np.ndarray, reach: np.ndarray, pictures: np.ndarray) -> _Pairs:
    low, high = np.rint(places - reach[:, None]), np.rint(places + reach[:, None])
    down, right = (high > low).T
    both = down & right
    disc = np.arange(len(places))
    disc = np.concatenate((disc, disc[down], disc[right], disc[both]))
    cells = np.concatenate((low, low[down] + (1, 0), low[right] + (0, 1), high[both]))
    squares = (cells % SIZE) @ (COLUMNS, 1) + ROWS * COLUMNS * pictures[disc]
    by_cell = np.argsort(squares, kind="stable")
    firsts = np.flatnonzero(np.diff(squares[by_cell], prepend=-1))
    counts = np.diff(firsts, append=len(disc))
    layer = np.arange(len(disc)) - np.repeat(firsts, counts)
    order = by_cell[np.lexsort((np.repeat(-counts, counts), layer))]
    disc = disc[order]
    return _Pairs(disc, pictures[disc], cells[order], [0, *np.cumsum(np.bincount(layer)).tolist()])


def _deepest(radii: np.ndarray, middles: np.ndarray, ends: list[int], cell: int) -> tuple[np.ndarray, np.ndarray]:
    """For the pixels of all cells [cell * cell, n]: the pair of the disc that it lies deepest in, and the depth."""
    down, right = (-(np.subtract.outer(_line(cell), middle) ** 2) for middle in middles.T)
    down += ABOVE + radii**2
    layers = [*enumerate(pairwise(ends[: LAYERS + 1]))]
    numbers = np.repeat(np.arange(len(layers), dtype=np.int32), [end - first for _, (first, end) in layers])
    best = np.zeros((cell, cell, ends[1]), np.int32)
    step = max(1, BLOCK // right.size)
    for top in range(0, cell, step):
        depths = (down[top : top + step, None, : len(numbers)] + right[:, : len(numbers)]).view(np.int32)
        depths &= -LAYERS  # the lowest bits make room for the number of the layer
        depths |= numbers
        for _, (first, end) in layers:
            part = best[top : top + step, :, : end - first]
            np.maximum(part, depths[..., first:end], out=part)
    pair = np.array(ends).take(best & (LAYERS - 1)) + np.arange(ends[1])
    return pair.reshape(cell * cell, -1), best.view(np.float32).reshape(cell * cell, -1) - np.float32(ABOVE)


@functools.lru_cache(8)
def _line(cell: int) -> np.ndarray:
    """The pixels of a cell in a line, from the middle of the cell."""
    return (np.arange(cell, dtype=np.float32) + 0.5) / cell - np.float32(0.5)


def _opacity(
    pair: np.ndarray,
    depth: np.ndarray,
    radii: np.ndarray,
    middles: np.ndarray,
    tangents: np.ndarray,
    ends: np.ndarray,
    cell: int,
) -> np.ndarray:
    """Opacity of all pixels, 0 to 255: the share of the pixel that a body covers."""
    opacity = np.where(depth > 0, np.float32(255), np.float32(0))
    # Between two discs a body has a straight edge. There the distance is measured across the body, not to the disc.
    half = np.float32(0.5 / per_cell(cell))
    edge = np.flatnonzero(np.abs(depth) < NECK_RADIUS / cell + 0.25 / cell**2 + half**2)
    of = pair.ravel().take(edge)
    down, right = (_line(cell).take(part) for part in np.divmod(edge // pair.shape[1], cell))
    along = tangents[:, 0].take(of) * down + tangents[:, 1].take(of) * right - (tangents * middles).sum(1).take(of)
    along = np.clip(along, np.where(ends, np.float32(0), -half).take(of), half)
    # At the edge of a disc, the depth grows by 2 radius for every unit of length.
    slopes = cell / 2 / np.maximum(radii, np.float32(1e-3))
    covered = (depth.ravel().take(edge) + along * along) * slopes.take(of) + np.float32(0.5)
    opacity.ravel()[edge] = 255 * np.clip(covered, 0, 1) + np.float32(0.5)
    return opacity
