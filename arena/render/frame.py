"""Pictures of a match in pixels, at any moment: those of the environment (rgb_array) and of PNG, GIF and MP4 files.

They have the look of the replay page: above the board are the names, the score, the gains of all snakes and the turn.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from arena.encoders.orientation import STEPS
from arena.errors import ArenaError
from arena.render import scene
from arena.render.fonts import font_for
from arena.render.shapes import dots, draw, lines
from arena.render.theme import (
    BEAN_COLOUR,
    BEAN_RADIUS,
    BOARD_COLOURS,
    CELL_MAX,
    CELL_MIN,
    EYE_COLOUR,
    FAINT_COLOUR,
    HEAD_RADIUS,
    MARK_ALPHA,
    MARKS,
    NECK_RADIUS,
    PUPIL_COLOUR,
    SNAKE_COLOURS,
    STRIP_COLOUR,
    TAIL_RADIUS,
    TAIL_SHADE,
    TEAM_COLOURS,
    TEXT_COLOUR,
    Colour,
    blend,
)
from arena.render.timeline import Timeline, Turn
from arena.rules import COLUMNS, ROWS, SNAKES, TEAM, TURNS

DIMMED = 0.72  # how much of the board the end card hides
HEADER = 2.3  # height above the board, in cells
NAME_FRACTION = 0.36  # of the width, for a player's name
GLOW = ((0.55, 0.05), (0.47, 0.12), (0.39, 0.2), (0.31, 0.3))  # of a bean: radii in cells, and opacity
AT_ONCE = 8  # pictures whose snakes are placed together
WHITE = (255, 255, 255)


def frame(match: dict[str, Any], cell: int = 24) -> np.ndarray:
    """A picture [H, W, 3] uint8 of a match as get_match returns it; a cell is `cell` pixels wide and high."""
    if not CELL_MIN <= cell <= CELL_MAX:
        raise ArenaError(f"cell is {cell!r} pixels; allowed: {CELL_MIN} to {CELL_MAX}")
    return Film(Timeline("red", "blue", [Turn(match)]), cell).picture(0)


def per_cell(cell: int) -> int:
    """Places per cell of a body, dense enough for smooth bends in cells of `cell` pixels."""
    return min(10, round((1.5 * cell) ** 0.5))


def body(snake: scene.Snake, per_cell: int) -> np.ndarray:
    """A body without its head: as few lines as it has straight pieces, since a line costs time."""
    steps = np.zeros_like(snake.places)  # from every place to the next one; 0 at the head, and over a gap
    steps[:-1] = scene.nearest_turn(np.diff(snake.places, axis=0))
    steps[np.abs(steps).max(1) > 1.5 / per_cell] = 0
    bends = np.flatnonzero(np.abs(np.diff(steps, axis=0)).max(1) > 1e-6) + 1
    first, last = np.concatenate(([0], bends)), np.concatenate((bends, [len(steps) - 1]))
    starts = snake.places[first]
    ends = starts + (last - first)[:, None] * steps[first]
    radii = (NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * snake.ways) * snake.size
    shades = np.outer(1 + (TAIL_SHADE - 1) * snake.ways, SNAKE_COLOURS[snake.number])
    return lines(starts, ends, (radii[first], radii[last]), (shades[first], shades[last]))


class Film:
    """Draws one match in cells of `cell` pixels."""

    def __init__(self, timeline: Timeline, cell: int) -> None:
        self._timeline, self._cell = timeline, cell
        self._strip = round(HEADER * cell / 2) * 2
        self._times = max(2, round(64 / cell))  # how much larger words on the board are drawn, before they are reduced
        self._per_cell = per_cell(cell)
        self._header_at = functools.lru_cache(2)(self._header)
        self._empty = np.empty((*self.size[::-1], 3), np.uint8)
        self._empty[: self._strip] = STRIP_COLOUR
        self._draw_names(self._empty[: self._strip])
        chequer = np.add.outer(np.arange(ROWS), np.arange(COLUMNS)) % 2
        self._empty[self._strip :] = np.array(BOARD_COLOURS, np.uint8)[chequer].repeat(cell, 0).repeat(cell, 1)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even, as video files need it."""
        return COLUMNS * self._cell, ROWS * self._cell + self._strip

    def picture(self, position: float) -> np.ndarray:
        """The match at a position of its timeline, which may lie between two turns: [H, W, 3] uint8."""
        return next(self.pictures([position]))

    def pictures(self, positions: Sequence[float]) -> Iterator[np.ndarray]:
        """The match at several positions, which takes less time than one after the other."""
        for first in range(0, len(positions), AT_ONCE):
            part = positions[first : first + AT_ONCE]
            for position, snakes in zip(part, scene.snakes_at(self._timeline, part, self._per_cell), strict=True):
                picture = self._empty.copy()
                picture[: self._strip] = self._header_at(int(position))
                self._draw_board(picture[self._strip :], position, snakes)
                yield picture

    def end_card(self) -> np.ndarray:
        """The last turn with the result on top of it."""
        last = len(self._timeline.turns) - 1
        picture, cell = self.picture(last), self._cell
        board = picture[self._strip :]
        board[:] = board + DIMMED * (np.array(STRIP_COLOUR) - board) + 0.5
        red, blue = self._timeline.team_scores(last)
        names = (self._timeline.red, self._timeline.blue)
        winner = None if red == blue else int(blue > red)
        title = "Draw" if winner is None else f"{names[winner]} wins"
        y = self._strip + ROWS * cell // 2
        colour = TEXT_COLOUR if winner is None else TEAM_COLOURS[winner]
        self._centred(picture, y - round(2.0 * cell), title, 1.1, colour)
        self._centred(picture, y, f"{red} : {blue}", 2.2, TEXT_COLOUR)
        deaths = [sum(snake // TEAM == team for turn in self._timeline.turns for snake in turn.died) for team in (0, 1)]
        self._centred(picture, y + round(1.9 * cell), f"deaths {deaths[0]} : {deaths[1]}", 0.75, TEXT_COLOUR)
        about = [] if self._timeline.seed is None else [f"match {self._timeline.match} of seed {self._timeline.seed}"]
        about += [self._timeline.date] if self._timeline.date else []
        self._centred(picture, y + round(3.0 * cell), " · ".join(about), 0.6, FAINT_COLOUR)
        return picture

    # The header

    def _draw_names(self, header: np.ndarray) -> None:
        """What all turns have in common: the names, and a head of every snake."""
        cell, width = self._cell, self.size[0]
        edge, top, pixels = round(0.35 * cell), round(0.68 * cell), max(10, round(0.72 * cell))
        for name, anchor, x in ((self._timeline.red, "lm", edge), (self._timeline.blue, "rm", width - edge)):
            put_words(header, (x, top), shortened(name, pixels, NAME_FRACTION * width), pixels, TEXT_COLOUR, anchor)
        self._centred(header, top - round(0.08 * cell), ":", 0.9, FAINT_COLOUR)
        side = round(0.9 * cell)  # heads are a little smaller than on the board
        for snake in range(SNAKES):
            middle = round(1.58 * cell) - side // 2 + side / 2, self._legend_at(snake) + side / 2
            head = np.array(middle) / side - 0.5
            direction = 3 if snake < TEAM else 2
            draw(header, _head(snake, head, direction), side)
            self._put_number(header, snake, head, direction, side)

    def _legend_at(self, snake: int) -> int:
        """The left end of a snake's head and gain."""
        edge, across = round(0.35 * self._cell), round(2.4 * self._cell)
        return edge + snake * across if snake < TEAM else self.size[0] - edge - (SNAKES - snake) * across

    def _header(self, index: int) -> np.ndarray:
        """Names, score, gains, turn, and a bar with the teams' fractions of the total length."""
        timeline, cell, width = self._timeline, self._cell, self.size[0]
        header = self._empty[: self._strip].copy()
        top, below = round(0.68 * cell), round(1.58 * cell)
        for team, (score, anchor) in enumerate(zip(timeline.team_scores(index), ("rm", "lm"), strict=True)):
            x = width // 2 + round(0.4 * cell) * (2 * team - 1)
            put_words(header, (x, top), str(score), round(1.1 * cell), TEAM_COLOURS[team], anchor)
        for snake, gain in enumerate(timeline.gains(index)):
            x = self._legend_at(snake) + round(0.9 * cell) + cell // 6
            put_words(header, (x, below), f"{gain:+d}", max(10, round(0.62 * cell)), SNAKE_COLOURS[snake], "lm")
        self._centred(header, below, f"turn {timeline.turns[index].state['turn']} / {TURNS}", 0.55, FAINT_COLOUR)
        lengths = timeline.lengths(index)
        fraction, bar = round(width * sum(lengths[:TEAM]) / max(1, sum(lengths))), max(2, cell // 8)
        header[-bar:, :fraction], header[-bar:, fraction:] = TEAM_COLOURS
        return header

    def _centred(self, picture: np.ndarray, y: int, words: str, cells: float, colour: Colour) -> None:
        pixels, width = max(10, round(cells * self._cell)), self.size[0]
        put_words(picture, (width // 2, y), shortened(words, pixels, 0.9 * width), pixels, colour)

    # The board

    def _draw_board(self, board: np.ndarray, position: float, snakes: list[scene.Snake]) -> None:
        effects = scene.effects(self._timeline, position) if position % 1 else []
        shapes = _beans(scene.beans(self._timeline, position))
        shapes += [np.concatenate([body(snake, self._per_cell) for snake in snakes])] if snakes else []
        shapes += [mark for snake in snakes if snake.size == 1 for mark in _marks(snake)]
        shapes += [part for snake in snakes for part in _head(snake.number, snake.head, snake.direction, snake.size)]
        shapes += [_ring(effect) for effect in effects]
        draw(board, shapes, self._cell)
        for snake in snakes:
            self._put_number(board, snake.number, snake.head, snake.direction, self._cell, snake.size)
        for effect in effects:
            if effect.change:
                x, y = (effect.place[1] + 0.5) * self._cell, (effect.place[0] - 0.3 - 0.4 * effect.age) * self._cell
                put_words(board, (x, y), f"{effect.change:+d}", 0.6 * self._cell, WHITE, times=self._times)

    def _put_number(
        self, picture: np.ndarray, snake: int, head: np.ndarray, direction: int, cell: int, size: float = 1.0
    ) -> None:
        """Write the number of a snake onto the back of its head."""
        row, column = head - 0.22 * size * np.array(STEPS[direction]) + 0.5
        at = (column * cell, row * cell)
        put_words(picture, at, str(snake), max(4 / self._times, 0.4 * size * cell), PUPIL_COLOUR, times=self._times)


def palette() -> list[Colour]:
    """The colours of a GIF: those of theme.py, shades from head to tail, and mixed colours for smooth edges."""
    board = BOARD_COLOURS[0]
    plain = (TEXT_COLOUR, FAINT_COLOUR, BEAN_COLOUR, EYE_COLOUR, PUPIL_COLOUR, *TEAM_COLOURS)
    colours: list[Colour] = [*BOARD_COLOURS, STRIP_COLOUR, *plain]
    colours += [
        blend(STRIP_COLOUR, colour, fraction) for colour in (*plain[:2], *plain[5:]) for fraction in (0.35, 0.7)
    ]
    colours += [blend(colour, STRIP_COLOUR, DIMMED) for colour in (*BOARD_COLOURS, BEAN_COLOUR)]
    colours += [blend(board, BEAN_COLOUR, fraction) for fraction in (0.05, 0.12, 0.2, 0.3, 0.5)]
    for colour in SNAKE_COLOURS:
        colours += [blend((0, 0, 0), colour, shade) for shade in np.linspace(1, TAIL_SHADE, 8)]
        colours += [blend(board, colour, fraction) for fraction in (0.2, 0.4, 0.6)]
        colours += [blend(blend((0, 0, 0), colour, shade), PUPIL_COLOUR, MARK_ALPHA) for shade in (1, 0.8, TAIL_SHADE)]
        colours += [
            blend(colour, PUPIL_COLOUR, 0.7),
            blend(STRIP_COLOUR, colour, 0.28),
            blend(STRIP_COLOUR, colour, 0.18),
        ]
    return list(dict.fromkeys(colours))


def _beans(beans: Sequence[scene.Bean]) -> list[np.ndarray]:
    """Beans in a glow of rings, each around the next."""
    places = np.array([bean.place for bean in beans]).reshape(-1, 2)
    sizes = np.array([bean.size for bean in beans])
    holes = (*(radius for radius, _ in GLOW[1:]), BEAN_RADIUS)
    rings = [(radius, hole, alpha) for (radius, alpha), hole in zip(GLOW, holes, strict=True)]
    return [
        dots(places, r * sizes, BEAN_COLOUR, alpha, hole * sizes)
        for r, hole, alpha in (*rings, (BEAN_RADIUS, 0.0, 1.0))
    ]


def _marks(snake: scene.Snake) -> list[np.ndarray]:
    radius, hole = MARKS[snake.number % TEAM]
    return [dots(snake.marks, radius, PUPIL_COLOUR, MARK_ALPHA, hole)] if radius else []


def _head(snake: int, place: np.ndarray, direction: int, size: float = 1.0) -> list[np.ndarray]:
    """A head with its eyes."""
    ahead = np.array(STEPS[direction])
    aside = ahead[::-1] * np.array(((-1,), (1,)))
    eyes = place + (0.13 * ahead + 0.21 * aside) * size
    return [
        dots([place], HEAD_RADIUS * size, SNAKE_COLOURS[snake]),
        dots(eyes, 0.15 * size, EYE_COLOUR),
        dots(eyes + 0.06 * size * ahead, 0.085 * size, PUPIL_COLOUR),
    ]


def _ring(effect: scene.Effect) -> np.ndarray:
    """A ring that grows and gets thinner with age."""
    radius = 0.45 + (1.1 if effect.died else 0.45) * effect.age
    colour = SNAKE_COLOURS[effect.snake] if effect.died else BEAN_COLOUR
    return dots([effect.place], radius, colour, hole=radius - 0.1 * (1 - effect.age))


# --- words ------------------------------------------------------------------------------------------------------------


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

    They are drawn `times` as large and reduced: with more than 1 they can move by less than a pixel.
    """
    (x, right), (y, below) = (divmod(round(line * times), times) for line in at)
    (left, top), mask = _words(words, round(pixels * times), anchor, times, (right, below))
    rows, columns = (np.arange(mask.shape[0]) + y + top), (np.arange(mask.shape[1]) + x + left)
    place = np.ix_(rows % picture.shape[0], columns % picture.shape[1])
    under = picture[place]
    picture[place] = under + mask[..., None] * (np.array(colour, np.float32) - under) + np.float32(0.5)


def shortened(words: str, pixels: int, width: float) -> str:
    """Words that fit into `width` pixels. Of long ones the end is kept: the end of a path tells more."""
    while font_for(words, pixels).getlength(words) > width and len(words) > 4:
        words = "..." + words.removeprefix("...")[max(1, len(words) // 20) :]
    return words


@functools.lru_cache(512)
def _words(
    words: str, pixels: int, anchor: str, times: int, shift: tuple[int, int]
) -> tuple[tuple[int, int], np.ndarray]:
    """Words as an opacity, 0 to 1, and where its left upper corner is from the anchor."""
    box = font_for(words, pixels).getbbox(words, anchor=anchor)
    left, top = (math.floor((low + by) / times) for low, by in zip(box[:2], shift, strict=True))
    right, bottom = (math.ceil((high + by) / times) for high, by in zip(box[2:], shift, strict=True))
    mask = Image.new("L", (max(1, right - left) * times, max(1, bottom - top) * times))
    at = (shift[0] - left * times, shift[1] - top * times)
    ImageDraw.Draw(mask).text(at, words, 255, font_for(words, pixels), anchor)
    return (left, top), np.asarray(mask.reduce(times), np.float32) / 255
