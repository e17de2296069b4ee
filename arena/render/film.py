"""Pictures of a match for files, at any moment: the look of the replay page, drawn with Pillow and numpy.

Above the board are the names, the score, the gains of all snakes and the turn, as on the page.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image, ImageDraw

from arena.render import film_bodies, scene
from arena.render.film_sprites import Colour, Sprites, font, put_words, shortened
from arena.render.frame import (
    BEAN_COLOUR,
    BOARD_COLOURS,
    EYE_COLOUR,
    MARK_ALPHA,
    PUPIL_COLOUR,
    SNAKE_COLOURS,
    STRIP_COLOUR,
    TAIL_SHADE,
    TEAM_COLOURS,
    TEXT_COLOUR,
    blend,
)
from arena.render.timeline import Timeline
from arena.rules import COLUMNS, ROWS, SNAKES, TEAM, TURNS

FAINT = (141, 150, 168)
SHEET_COLOUR = (40, 45, 58)  # between the pictures of a sheet
DIMMED = 0.72  # how much of the board the end card hides
CELL_MIN = 12  # pixels; in smaller pictures the numbers on top do not fit
HEADER = 2.3  # height above the board, in cells
PIXELS_AT_ONCE = 2048  # of one cell in all pictures that are drawn at once
NAME_SHARE = 0.36  # of the width, for a player's name


class Film:
    """Draws one match in cells of `cell` pixels."""

    def __init__(self, timeline: Timeline, cell: int) -> None:
        self._timeline, self._cell = timeline, cell
        self._sprites = Sprites(cell)
        self._header_at = functools.lru_cache(2)(self._header)
        self._empty_header, self._floor = self._draw_empty_header(), self._empty_board()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even, as video files need it."""
        return COLUMNS * self._cell, ROWS * self._cell + self._strip

    def picture(self, position: float) -> Image.Image:
        """The match at a position of its timeline, which may lie between two turns."""
        return next(self.pictures([position]))

    def pictures(self, positions: Sequence[float]) -> Iterator[Image.Image]:
        """The match at several positions, which takes less time than one after the other."""
        at_once = max(1, PIXELS_AT_ONCE // self._cell**2)
        for first in range(0, len(positions), at_once):
            part = positions[first : first + at_once]
            for position, board in zip(part, self._boards(part), strict=True):
                image = Image.new("RGB", self.size, STRIP_COLOUR)
                image.paste(self._header_at(int(position)), (0, 0))
                image.paste(board, (0, self._strip))
                yield image

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
        x, y = width // 2, self._strip + ROWS * cell // 2
        colour = TEXT_COLOUR if winner is None else TEAM_COLOURS[winner]
        self._centred(image, (x, y - round(2.0 * cell)), title, 1.1, colour)
        self._centred(image, (x, y), f"{red} : {blue}", 2.2, TEXT_COLOUR)
        deaths = [sum(snake // TEAM == team for turn in self._timeline.turns for snake in turn.died) for team in (0, 1)]
        self._centred(image, (x, y + round(1.9 * cell)), f"deaths {deaths[0]} : {deaths[1]}", 0.75, TEXT_COLOUR)
        about = [] if self._timeline.seed is None else [f"match {self._timeline.match} of seed {self._timeline.seed}"]
        about += [self._timeline.date] if self._timeline.date else []
        self._centred(image, (x, y + round(3.0 * cell)), " · ".join(about), 0.6, FAINT)
        return image

    # The header

    @property
    def _strip(self) -> int:
        return round(HEADER * self._cell / 2) * 2

    def _draw_empty_header(self) -> Image.Image:
        """What all turns have in common: the names, and a head of every snake."""
        cell, width = self._cell, self.size[0]
        image = Image.new("RGB", (width, self._strip), STRIP_COLOUR)
        edge, top, pixels = round(0.35 * cell), round(0.68 * cell), max(10, round(0.72 * cell))
        for name, anchor, x in ((self._timeline.red, "lm", edge), (self._timeline.blue, "rm", width - edge)):
            put_words(image, (x, top), shortened(name, pixels, NAME_SHARE * width), pixels, TEXT_COLOUR, anchor)
        self._centred(image, (width // 2, top - round(0.08 * cell)), ":", 0.9, FAINT)
        for snake in range(SNAKES):
            head = self._sprites.legend(snake, 3 if snake < TEAM else 2, STRIP_COLOUR)
            image.paste(head, (self._legend_at(snake), round(1.58 * cell) - head.height // 2))
        return image

    def _legend_at(self, snake: int) -> int:
        """The left end of a snake's head and gain."""
        edge, across = round(0.35 * self._cell), round(2.4 * self._cell)
        return edge + snake * across if snake < TEAM else self.size[0] - edge - (SNAKES - snake) * across

    def _header(self, index: int) -> Image.Image:
        """Names, score, gains, turn, and a bar with the teams' shares of the total length."""
        timeline, cell, width = self._timeline, self._cell, self.size[0]
        image = self._empty_header.copy()
        top, below, middle = round(0.68 * cell), round(1.58 * cell), width // 2
        for team, (score, anchor) in enumerate(zip(timeline.team_scores(index), ("rm", "lm"), strict=True)):
            x = middle + round(0.4 * cell) * (2 * team - 1)
            put_words(image, (x, top), str(score), round(1.1 * cell), TEAM_COLOURS[team], anchor)
        for snake, gain in enumerate(timeline.gains(index)):
            x = self._legend_at(snake) + round(0.9 * cell) + cell // 6
            put_words(image, (x, below), f"{gain:+d}", max(10, round(0.62 * cell)), SNAKE_COLOURS[snake], "lm")
        lengths = timeline.lengths(index)
        share, bar = round(width * sum(lengths[:TEAM]) / max(1, sum(lengths))), max(2, cell // 8)
        draw = ImageDraw.Draw(image)
        turn = f"turn {timeline.turns[index].state['turn']} / {TURNS}"  # new every time: no sprite is kept
        draw.text((middle, below), turn, FAINT, font(max(10, round(0.55 * cell))), "mm")
        draw.rectangle((0, self._strip - bar, width, self._strip), TEAM_COLOURS[1])
        draw.rectangle((0, self._strip - bar, share, self._strip), TEAM_COLOURS[0])
        return image

    def _centred(self, image: Image.Image, at: tuple[int, int], words: str, cells: float, colour: Colour) -> None:
        pixels = max(10, round(cells * self._cell))
        put_words(image, at, shortened(words, pixels, 0.9 * self.size[0]), pixels, colour, "mm")

    # The board

    def _empty_board(self) -> Image.Image:
        chequer = np.add.outer(np.arange(ROWS), np.arange(COLUMNS)) % 2
        pixels = np.array(BOARD_COLOURS, np.uint8)[chequer].repeat(self._cell, 0).repeat(self._cell, 1)
        return Image.fromarray(pixels)

    def _boards(self, positions: Sequence[float]) -> Iterator[Image.Image]:
        timeline, cell, sprites = self._timeline, self._cell, self._sprites
        snakes = scene.snakes_at(timeline, positions, film_bodies.per_cell(cell))
        for i, (position, pixels) in enumerate(zip(positions, film_bodies.bodies(snakes, cell), strict=True)):
            image = self._floor.copy()
            for bean in scene.beans(timeline, position):
                sprites.put_bean(image, bean)
            bodies = Image.fromarray(pixels)
            image.paste(bodies, (0, 0), bodies)
            for snake in snakes[i]:
                sprites.put_head(image, snake)
            for effect in scene.effects(timeline, position) if position % 1 else ():
                sprites.put_effect(image, effect)
            yield image


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
