"""Pictures of a match for files, at any moment: the look of the replay page, drawn with Pillow.

Shapes are drawn larger than they are shown and then reduced, which gives smooth edges. Above the board are the names,
the score, the gains of all snakes and the turn, as on the page.
"""

import functools
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arena.render import scene
from arena.render.frame import (
    BEAN_COLOUR,
    BEAN_RADIUS,
    BOARD_COLOURS,
    EYE_COLOUR,
    HEAD_RADIUS,
    MARK_ALPHA,
    MARKS,
    NECK_RADIUS,
    PUPIL_COLOUR,
    SNAKE_COLOURS,
    STEPS,
    STRIP_COLOUR,
    TAIL_RADIUS,
    TAIL_SHADE,
    TEAM_COLOURS,
    TEXT_COLOUR,
    blend,
)
from arena.render.timeline import Timeline
from arena.rules import COLUMNS, ROWS, SNAKES, TEAM, TURNS

Colour = tuple[int, int, int]
FAINT = (141, 150, 168)
SHEET_COLOUR = (40, 45, 58)  # between the pictures of a sheet
DIMMED = 0.72  # how much of the board the end card hides
CELL_MIN = 12  # pixels; in smaller pictures the numbers on top do not fit
HEADER = 2.3  # height above the board, in cells
PIXELS = 64  # about as many pixels per cell are drawn, before the picture is reduced
NAME_SHARE = 0.36  # of the width, for a player's name
WHITE = (255, 255, 255)
LEVELS = 64  # shades along a body
SHADES = [
    [blend((0, 0, 0), colour, 1 + (TAIL_SHADE - 1) * level / LEVELS) for level in range(LEVELS + 1)]
    for colour in SNAKE_COLOURS
]


class Film:
    """Draws one match in cells of `cell` pixels."""

    def __init__(self, timeline: Timeline, cell: int) -> None:
        self._timeline, self._cell = timeline, cell
        self._times = max(2, round(PIXELS / cell))
        self._unit = cell * self._times  # pixels of a cell while it is drawn
        self._header_at = functools.lru_cache(2)(self._header)
        self._floor = self._empty_board()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even, as video files need it."""
        return COLUMNS * self._cell, ROWS * self._cell + self._strip

    def picture(self, position: float) -> Image.Image:
        """The match at a position of its timeline, which may lie between two turns."""
        image = Image.new("RGB", self.size, STRIP_COLOUR)
        image.paste(self._header_at(int(position)), (0, 0))
        image.paste(self._board(position), (0, self._strip))
        return image

    def end_card(self) -> Image.Image:
        """The last turn with the result on top of it."""
        last = len(self._timeline.turns) - 1
        image = self.picture(last)
        cell, (width, height) = self._cell, self.size
        board = (0, self._strip, width, height)
        image.paste(Image.blend(image.crop(board), Image.new("RGB", (width, ROWS * cell), STRIP_COLOUR), DIMMED), board)
        red, blue = self._timeline.team_scores(last)
        names = (self._timeline.red, self._timeline.blue)
        winner = None if red == blue else int(blue > red)
        title = "Draw" if winner is None else f"{names[winner]} wins"
        draw, middle = ImageDraw.Draw(image), (width // 2, self._strip + ROWS * cell // 2)
        colour = TEXT_COLOUR if winner is None else TEAM_COLOURS[winner]
        self._centred(draw, (middle[0], middle[1] - round(2.0 * cell)), title, 1.1, colour)
        self._centred(draw, middle, f"{red} : {blue}", 2.2, TEXT_COLOUR)
        deaths = [sum(snake // TEAM == team for turn in self._timeline.turns for snake in turn.died) for team in (0, 1)]
        self._centred(
            draw, (middle[0], middle[1] + round(1.9 * cell)), f"deaths {deaths[0]} : {deaths[1]}", 0.75, TEXT_COLOUR
        )
        about = [] if self._timeline.seed is None else [f"match {self._timeline.match} of seed {self._timeline.seed}"]
        about += [self._timeline.date] if self._timeline.date else []
        self._centred(draw, (middle[0], middle[1] + round(3.0 * cell)), " · ".join(about), 0.6, FAINT)
        return image

    # The header

    @property
    def _strip(self) -> int:
        return round(HEADER * self._cell / 2) * 2

    def _header(self, index: int) -> Image.Image:
        """Names, score, gains, turn, and a bar with the teams' shares of the total length."""
        timeline, cell, width = self._timeline, self._cell, self.size[0]
        image = Image.new("RGB", (width, self._strip), STRIP_COLOUR)
        draw = ImageDraw.Draw(image)
        edge, top, below = round(0.35 * cell), round(0.68 * cell), round(1.58 * cell)
        scores = timeline.team_scores(index)
        for team, (name, anchor, x) in enumerate(((timeline.red, "lm", edge), (timeline.blue, "rm", width - edge))):
            font = _font(max(10, round(0.72 * cell)))
            draw.text((x, top), _shortened(name, font, NAME_SHARE * width), TEXT_COLOUR, font, anchor)
            side, at = ("rm", width // 2 - round(0.4 * cell)) if team == 0 else ("lm", width // 2 + round(0.4 * cell))
            draw.text((at, top), str(scores[team]), TEAM_COLOURS[team], _font(round(1.1 * cell)), side)
        self._centred(draw, (width // 2, top - round(0.08 * cell)), ":", 0.9, FAINT)
        self._centred(draw, (width // 2, below), f"turn {timeline.turns[index].state['turn']} / {TURNS}", 0.55, FAINT)
        for snake, gain in enumerate(timeline.gains(index)):
            across = round(2.4 * cell)
            x = edge + snake * across if snake < TEAM else width - edge - (SNAKES - snake) * across
            head = self._chip(snake)
            image.paste(head, (x, below - head.height // 2))
            font = _font(max(10, round(0.62 * cell)))
            draw.text((x + head.width + cell // 6, below), f"{gain:+d}", SNAKE_COLOURS[snake], font, "lm")
        lengths = timeline.lengths(index)
        share, bar = round(width * sum(lengths[:TEAM]) / max(1, sum(lengths))), max(2, cell // 8)
        draw.rectangle((0, self._strip - bar, width, self._strip), TEAM_COLOURS[1])
        draw.rectangle((0, self._strip - bar, share, self._strip), TEAM_COLOURS[0])
        return image

    @functools.cache  # noqa: B019 - a film lives as long as its file is made
    def _chip(self, snake: int) -> Image.Image:
        """The head of a snake, as a legend."""
        side = round(0.9 * self._cell) * self._times
        image = Image.new("RGB", (side, side), STRIP_COLOUR)
        _draw_head(ImageDraw.Draw(image), (side / 2, side / 2), side, snake, STEPS[3 if snake < TEAM else 2])
        return image.reduce(self._times)

    def _centred(
        self, draw: ImageDraw.ImageDraw, at: tuple[int, int], words: str, cells: float, colour: Colour
    ) -> None:
        font = _font(max(10, round(cells * self._cell)))
        draw.text(at, _shortened(words, font, 0.9 * self.size[0]), colour, font, "mm")

    # The board

    def _empty_board(self) -> Image.Image:
        chequer = np.add.outer(np.arange(ROWS), np.arange(COLUMNS)) % 2
        pixels = np.array(BOARD_COLOURS, np.uint8)[chequer].repeat(self._unit, 0).repeat(self._unit, 1)
        return Image.fromarray(pixels)

    def _board(self, position: float) -> Image.Image:
        timeline, image = self._timeline, self._floor.copy()
        draw = ImageDraw.Draw(image)
        for place, size in scene.beans(timeline, position):
            for radius, alpha in ((0.55, 0.05), (0.47, 0.12), (0.39, 0.2), (0.31, 0.3)):
                ground = BOARD_COLOURS[sum(place) % 2]
                self._disc(draw, np.array(place, float), radius * size, blend(ground, BEAN_COLOUR, alpha))
            self._disc(draw, np.array(place, float), BEAN_RADIUS * size, BEAN_COLOUR)
        snakes = scene.snakes(timeline, position, 10)
        for snake in snakes:
            self._draw_body(draw, snake)
        for snake in snakes:
            for row, column in _copies(snake.head, 0.6):
                at = ((column + 0.5) * self._unit, (row + 0.5) * self._unit)
                _draw_head(draw, at, self._unit * snake.size, snake.number, STEPS[snake.direction])
        for effect in scene.effects(timeline, position) if position % 1 else ():
            self._draw_effect(draw, effect)
        return image.reduce(self._times)

    def _draw_body(self, draw: ImageDraw.ImageDraw, snake: scene.Snake) -> None:
        radii = (NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * snake.ways) * snake.size
        shades = [SHADES[snake.number][level] for level in np.rint(snake.ways * LEVELS).astype(int).tolist()]
        for place, radius, shade in zip(snake.places, radii, shades, strict=True):
            self._disc(draw, place, radius, shade)
        radius, hole = MARKS[snake.number % TEAM]
        count = len(snake.marks)
        for i, place in enumerate(snake.marks if radius and snake.size == 1 else ()):
            shade = SHADES[snake.number][round(LEVELS * (i + 1) / count)]
            self._disc(draw, place, radius, blend(shade, PUPIL_COLOUR, MARK_ALPHA))
            if hole:
                self._disc(draw, place, hole, shade)

    def _draw_effect(self, draw: ImageDraw.ImageDraw, effect: scene.Effect) -> None:
        """A ring that grows, and the change of the snake's length."""
        colour = SNAKE_COLOURS[effect.snake] if effect.died else BEAN_COLOUR
        radius, width = (
            0.45 + (1.1 if effect.died else 0.45) * effect.age,
            max(1, round(0.1 * self._unit * (1 - effect.age))),
        )
        font = _font(round(0.6 * self._unit))
        for row, column in _copies(effect.place, radius):
            x, y = (column + 0.5) * self._unit, (row + 0.5) * self._unit
            far = radius * self._unit
            draw.ellipse((x - far, y - far, x + far, y + far), outline=colour, width=width)
            if effect.change:
                lift = (0.8 + 0.4 * effect.age) * self._unit
                draw.text((x, y - lift), f"{effect.change:+d}", WHITE, font, "mm")

    def _disc(self, draw: ImageDraw.ImageDraw, place: np.ndarray, radius: float, colour: Colour) -> None:
        for row, column in _copies(place, radius):
            x, y, far = (column + 0.5) * self._unit, (row + 0.5) * self._unit, radius * self._unit
            draw.ellipse((x - far, y - far, x + far, y + far), colour)


def _copies(place: np.ndarray, radius: float) -> list[tuple[float, float]]:
    """A place, and its copies across the edges of the board where a shape around it reaches over them."""
    row, column = float(place[0]), float(place[1])
    rows, columns = [row], [column]
    if row < radius:
        rows.append(row + ROWS)
    elif row > ROWS - 1 - radius:
        rows.append(row - ROWS)
    if column < radius:
        columns.append(column + COLUMNS)
    elif column > COLUMNS - 1 - radius:
        columns.append(column - COLUMNS)
    return [(r, c) for r in rows for c in columns]


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
    draw.text(centre, str(snake), PUPIL_COLOUR, _font(max(4, round(0.4 * unit))), "mm")


@functools.lru_cache(64)
def _font(pixels: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(pixels)
    assert isinstance(font, ImageFont.FreeTypeFont)  # Pillow's bitmap font comes only without a size
    return font


def _shortened(words: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Words that fit into `width` pixels. Of long ones the end is kept: the end of a path tells more."""
    while font.getlength(words) > width and len(words) > 4:
        words = "..." + words.removeprefix("...")[max(1, len(words) // 20) :]
    return words


def palette() -> list[Colour]:
    """The colours of a GIF: all colours above, shades from head to tail, and mixed colours for smooth edges."""
    board = BOARD_COLOURS[0]
    plain = (TEXT_COLOUR, FAINT, BEAN_COLOUR, EYE_COLOUR, PUPIL_COLOUR, *TEAM_COLOURS)
    colours: list[Colour] = [*BOARD_COLOURS, STRIP_COLOUR, *plain]
    colours += [blend(STRIP_COLOUR, colour, share) for colour in (*plain[:2], *plain[5:]) for share in (0.35, 0.7)]
    colours += [blend(colour, STRIP_COLOUR, DIMMED) for colour in (*BOARD_COLOURS, BEAN_COLOUR)]
    colours += [blend(board, BEAN_COLOUR, share) for share in (0.05, 0.12, 0.2, 0.3, 0.5)]
    for colour in SNAKE_COLOURS:
        colours += [blend((0, 0, 0), colour, shade) for shade in np.linspace(1, TAIL_SHADE, 8)]
        colours += [blend(board, colour, share) for share in (0.2, 0.4, 0.6)]
        colours += [blend(blend((0, 0, 0), colour, shade), PUPIL_COLOUR, MARK_ALPHA) for shade in (1, 0.8, TAIL_SHADE)]
        colours += [
            blend(colour, PUPIL_COLOUR, 0.7),
            blend(STRIP_COLOUR, colour, 0.28),
            blend(STRIP_COLOUR, colour, 0.18),
        ]
    return list(dict.fromkeys(colours))
