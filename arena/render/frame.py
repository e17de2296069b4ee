"""A match as a picture (numpy only, no display).

Shapes are drawn by the distance of each pixel to them (signed distance), which gives smooth edges at every size;
Pillow's ImageDraw draws without smooth edges. The environment (rgb_array) and the window draw with this file, and
neither loads Pillow: only export.py does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena.encoders.orientation import STEPS
from arena.errors import ArenaError
from arena.match_dict import gains, team_scores
from arena.rules import COLUMNS, ROWS, SNAKES, TEAM

CELL_MIN, CELL_MAX = 12, 96  # pixels; in smaller pictures the numbers on top do not fit
# Two families that colour-blind people can distinguish: amber, orange, red against light blue, blue, violet.
SNAKE_COLOURS = ((255, 186, 60), (255, 121, 28), (226, 62, 52), (118, 204, 255), (52, 140, 255), (134, 108, 246))
TEAM_COLOURS = ((255, 121, 28), (52, 140, 255))
BEAN_COLOUR = (238, 242, 226)
BOARD_COLOURS = ((23, 26, 35), (27, 31, 41))  # a faint chequer instead of lines
STRIP_COLOUR = (13, 15, 21)
TEXT_COLOUR = (214, 219, 230)
EYE_COLOUR, PUPIL_COLOUR = (250, 250, 250), (12, 14, 20)

# Radii in cells.
HEAD_RADIUS, NECK_RADIUS, TAIL_RADIUS, BEAN_RADIUS, GLOW_RADIUS = 0.47, 0.40, 0.25, 0.23, 0.42
TAIL_SHADE = 0.62  # brightness of a tail, compared with the head
# Mark on every segment, because colours of one team are hard to distinguish: nothing, a dot or a ring (radius, hole).
MARKS = ((0.0, 0.0), (0.11, 0.0), (0.19, 0.11))
MARK_ALPHA = 0.45

# Letters of five columns and seven rows: one number per row, one bit per pixel.
GLYPH_ROWS, GLYPH_COLUMNS = 7, 5
GLYPHS = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31),
    "3": (14, 17, 1, 6, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    "B": (30, 17, 17, 30, 17, 17, 30),
    "D": (30, 17, 17, 17, 17, 17, 30),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "-": (0, 0, 0, 14, 0, 0, 0),
    " ": (0, 0, 0, 0, 0, 0, 0),
}


def frame(match: dict[str, Any], cell: int = 24) -> np.ndarray:
    """A picture [H, W, 3] uint8 of a match as get_match returns it; a cell is `cell` pixels wide and high."""
    if not CELL_MIN <= cell <= CELL_MAX:
        raise ArenaError(f"cell is {cell!r} pixels; allowed: {CELL_MIN} to {CELL_MAX}")
    strip = cell * 3 // 4 * 2  # even, like all sides of the picture: video files need even sides
    picture = np.empty((strip + ROWS * cell, COLUMNS * cell, 3), np.float32)
    _draw_strip(picture[:strip], match, cell)
    board = picture[strip:]  # shapes are cut off at its edges
    chequer = np.add.outer(np.arange(ROWS), np.arange(COLUMNS)) % 2
    board[:] = np.array(BOARD_COLOURS)[chequer].repeat(cell, 0).repeat(cell, 1)
    for bean in match["beans"]:
        for part in (1.0, 0.85, 0.7):
            _dot(board, cell, bean, GLOW_RADIUS * part, BEAN_COLOUR, 0.05)
        _dot(board, cell, bean, BEAN_RADIUS, BEAN_COLOUR)
    for snake in range(SNAKES):
        _draw_body(board, cell, match["snakes"][snake], SNAKE_COLOURS[snake])
        radius, hole = MARKS[snake % TEAM]
        for place in match["snakes"][snake][1:] if radius else ():
            _dot(board, cell, place, radius, PUPIL_COLOUR, MARK_ALPHA, hole)
    for snake in range(SNAKES):
        if match["snakes"][snake]:
            _draw_head(board, cell, match["snakes"][snake][0], match["directions"][snake], SNAKE_COLOURS[snake])
    return (picture + 0.5).astype(np.uint8)


def blend(a: Sequence[int], b: Sequence[int], share: float) -> tuple[int, int, int]:
    """The colour that is `share` of the way from a to b."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _draw_strip(strip: np.ndarray, match: dict[str, Any], cell: int) -> None:
    """Scores of the teams and of their snakes left and right, the turn in the middle, and a bar.

    The parts of the bar are the teams' shares of the total length.
    """
    strip[:] = STRIP_COLOUR
    height, width, _ = strip.shape
    scale = cell // 12
    bar = 2 * scale
    top = (height - bar - GLYPH_ROWS * scale) // 2
    gap = cell // 4
    numbers = [str(gain) for gain in gains(match)]
    red, blue = team_scores(match)

    x = _write(strip, top, gap, f"RED {red}", TEXT_COLOUR, scale) + 2 * gap
    for snake in range(TEAM):
        x = _write(strip, top, x, numbers[snake], SNAKE_COLOURS[snake], scale) + gap
    title = f"BLUE {blue}"
    x = width - gap - _text_width(title, scale)
    _write(strip, top, x, title, TEXT_COLOUR, scale)
    x -= gap
    for snake in reversed(range(TEAM, SNAKES)):
        x -= gap + _text_width(numbers[snake], scale)
        _write(strip, top, x, numbers[snake], SNAKE_COLOURS[snake], scale)
    turn = f"TURN {match['turn']}"
    _write(strip, top, (width - _text_width(turn, scale)) // 2, turn, TEXT_COLOUR, scale)

    lengths = [len(body) for body in match["snakes"]]
    share = round(width * sum(lengths[:TEAM]) / max(1, sum(lengths)))
    strip[-bar:, :share] = TEAM_COLOURS[0]
    strip[-bar:, share:] = TEAM_COLOURS[1]
    strip[-bar:, width // 2 - scale // 2 : width // 2 + (scale + 1) // 2] = TEXT_COLOUR


def _text_width(text: str, scale: int) -> int:
    return (len(text) * (GLYPH_COLUMNS + 1) - 1) * scale


def _write(picture: np.ndarray, y: int, x: int, text: str, colour: tuple[int, int, int], scale: int) -> int:
    """Write text with its upper left corner at (y, x); returns the x of its end."""
    for letter in text:
        bits = np.array(GLYPHS[letter])[:, None] >> np.arange(GLYPH_COLUMNS)[::-1] & 1
        dots = bits.repeat(scale, 0).repeat(scale, 1).astype(bool)
        picture[y : y + dots.shape[0], x : x + dots.shape[1]][dots] = colour
        x += (GLYPH_COLUMNS + 1) * scale
    return x - scale


def _draw_body(board: np.ndarray, cell: int, body: list[list[int]], colour: tuple[int, int, int]) -> None:
    """Draw every segment joined to the next one. Across the edge of the board: a stub on both sides. Gaps stay."""
    way = np.linspace(0, 1, len(body))
    radii = NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * way
    shades = np.outer(1 + (TAIL_SHADE - 1) * way, colour)
    for i in reversed(range(1, len(body))):
        (row, column), ahead = body[i], body[i - 1]
        rows = (ahead[0] - row + ROWS // 2) % ROWS - ROWS // 2
        columns = (ahead[1] - column + COLUMNS // 2) % COLUMNS - COLUMNS // 2
        if abs(rows) + abs(columns) != 1:
            _dot(board, cell, body[i], radii[i], shades[i])
            continue
        ends = [((row, column), (row + rows, column + columns))]
        if ends[0][1] != tuple(ahead):
            ends.append(((ahead[0] - rows, ahead[1] - columns), (ahead[0], ahead[1])))
        for start, end in ends:
            _line(board, cell, start, end, radii[[i, i - 1]], shades[[i, i - 1]])


def _draw_head(board: np.ndarray, cell: int, place: list[int], direction: int, colour: tuple[int, int, int]) -> None:
    _dot(board, cell, place, HEAD_RADIUS, colour)
    rows, columns = STEPS[direction]
    for side in (-1, 1):
        row = place[0] + 0.13 * rows + 0.21 * side * columns
        column = place[1] + 0.13 * columns + 0.21 * side * rows
        _dot(board, cell, (row, column), 0.15, EYE_COLOUR)
        _dot(board, cell, (row + 0.06 * rows, column + 0.06 * columns), 0.085, PUPIL_COLOUR)


def _dot(
    board: np.ndarray, cell: int, place: Any, radius: float, colour: Any, alpha: float = 1.0, hole: float = 0.0
) -> None:
    _line(board, cell, place, place, (radius, radius), (colour, colour), alpha, hole)


def _line(
    board: np.ndarray,
    cell: int,
    start: Any,
    end: Any,
    radii: Any,
    colours: Any,
    alpha: float = 1.0,
    hole: float = 0.0,
) -> None:
    """Draw a line with round ends between the middles of two cells; radii in cells, one per end."""
    start = (np.array(start, np.float32) + 0.5) * cell - 0.5
    end = (np.array(end, np.float32) + 0.5) * cell - 0.5
    radii = np.array(radii, np.float32) * cell
    colours = np.array(colours, np.float32)
    low = np.maximum(np.floor(np.minimum(start, end) - radii.max() - 1), 0).astype(int)
    high = np.minimum(np.ceil(np.maximum(start, end) + radii.max() + 2), board.shape[:2]).astype(int)
    y = np.arange(low[0], high[0], dtype=np.float32)[:, None]
    x = np.arange(low[1], high[1], dtype=np.float32)
    along = end - start
    length = max(float(along @ along), 1e-6)
    t = np.clip(((y - start[0]) * along[0] + (x - start[1]) * along[1]) / length, 0, 1)
    distance = np.hypot(y - start[0] - t * along[0], x - start[1] - t * along[1])
    cover = np.clip(radii[0] + (radii[1] - radii[0]) * t - distance + 0.5, 0, 1)
    if hole:
        cover -= np.clip(hole * cell - distance + 0.5, 0, 1)
    cover *= alpha
    part = board[low[0] : high[0], low[1] : high[1]]
    part += cover[..., None] * (colours[0] + (colours[1] - colours[0]) * t[..., None] - part)
