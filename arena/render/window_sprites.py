"""Sprites: the small pictures of which the window's board consists, made once per cell size."""

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pygame

from arena.encoders.orientation import STEPS
from arena.render.fonts import font_file
from arena.render.frame import frame
from arena.render.theme import (
    BEAN_COLOUR,
    BEAN_RADIUS,
    BOARD_COLOURS,
    HEAD_RADIUS,
    MARK_ALPHA,
    MARKS,
    NECK_RADIUS,
    PUPIL_COLOUR,
    SNAKE_COLOURS,
    TAIL_RADIUS,
    TAIL_SHADE,
)
from arena.rules import COLUMNS, ROWS, SNAKES, TEAM

GLOW_RADIUS = 0.42  # of a bean, in cells
LEVELS = 32  # steps of thickness and shade along a body
SIZES = 10  # steps of size while something appears or disappears
AGES = 16  # steps of an effect
WHITE = (255, 255, 255)
# Fonts of Windows, macOS and Linux desktops, by pygame's short names.
FONTS = ("segoeui", "helveticaneue", "sfns", "inter", "roboto", "notosans", "dejavusans", "liberationsans", "arial")
PYGAME_FONT = str(Path(pygame.__file__).with_name(pygame.font.get_default_font()))

Colour = Sequence[float] | np.ndarray


@functools.lru_cache(256)
def text(words: str, pixels: int, colour: tuple[int, int, int]) -> pygame.Surface:
    """A line of text in a font of the system, or in another one if that lacks some of its letters."""
    return _font(font_file(words, _usual_font()), pixels).render(words, True, colour)


@functools.lru_cache(16)
def _font(path: str, pixels: int) -> pygame.font.Font:
    return pygame.font.Font(path, round(pixels * (1.25 if path == PYGAME_FONT else 1.0)))


@functools.cache
def _usual_font() -> str:
    """The first of FONTS on this machine; otherwise the font of pygame, which spaces small letters badly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine without fontconfig, which has no fonts to list
        return next(filter(None, (pygame.font.match_font(name, bold=False) for name in FONTS)), PYGAME_FONT)


def forget_texts() -> None:
    """Drop all cached texts. Call before pygame.quit(): its fonts cannot be used afterwards."""
    text.cache_clear()
    _font.cache_clear()


class Sprites:
    """All sprites for cells of `cell` pixels. The middle of each sprite falls on the middle of a cell."""

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self.per_cell = min(round(np.sqrt(2 * cell)), 10)  # discs per cell, dense enough for a smooth body
        self.board = _board(cell)
        self._heads = _heads(cell)
        self.body = functools.cache(self._body)
        self.head = functools.cache(self._head)
        self.bean = functools.cache(self._bean)
        self.mark = functools.cache(self._mark)
        self.ring = functools.cache(self._ring)
        self.spark = functools.cache(self._spark)
        self.halo = functools.cache(self._halo)

    def _body(self, snake: int, size: int) -> tuple[list[pygame.Surface], np.ndarray]:
        """Discs from the neck to the tail, LEVELS + 1 of them, and their sides in pixels."""
        discs = []
        for way in np.linspace(0, 1, LEVELS + 1):
            radius = (NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * way) * size / SIZES
            colour = np.array(SNAKE_COLOURS[snake]) * (1 + (TAIL_SHADE - 1) * way)
            discs.append(self._disc(radius, colour))
        return discs, np.array([disc.get_width() for disc in discs])

    def _head(self, snake: int, direction: int, size: int) -> pygame.Surface:
        whole = self._heads[snake][direction]
        side = _fitting(self.cell * size / SIZES, self.cell)
        return whole if size == SIZES else pygame.transform.smoothscale(whole, (side, side))

    def _bean(self, size: int) -> pygame.Surface:
        shrunk = size / SIZES
        distance = _distance(_fitting(2 * GLOW_RADIUS * self.cell + 2, self.cell))
        through = np.ones_like(distance)
        for part in (1.0, 0.85, 0.7):
            through *= 1 - 0.05 * _cover(distance, GLOW_RADIUS * part * shrunk * self.cell)
        through *= 1 - _cover(distance, BEAN_RADIUS * shrunk * self.cell)
        return _surface(BEAN_COLOUR, 1 - through)

    def _mark(self, snake: int) -> pygame.Surface | None:
        """The mark on every segment, as in pictures."""
        radius, hole = MARKS[snake % TEAM]
        if not radius:
            return None
        distance = _distance(_fitting(0.5 * self.cell, self.cell))
        cover = _cover(distance, radius * self.cell)
        if hole:
            cover -= _cover(distance, hole * self.cell)
        return _surface(PUPIL_COLOUR, MARK_ALPHA * cover)

    def _ring(self, colour: tuple[int, int, int], age: int) -> pygame.Surface:
        """A ring that grows and fades with age."""
        old = age / AGES
        radius, width = (0.35 + 0.75 * old) * self.cell, (0.16 - 0.1 * old) * self.cell
        distance = _distance(_fitting(2.4 * self.cell, self.cell))
        cover = _cover(distance, radius) - _cover(distance, radius - width)
        return _surface(colour, cover * (1 - old) ** 0.7)

    def _halo(self) -> pygame.Surface:
        """A thin ring around a head: the snake of a human, or the one that the camera follows."""
        distance = _distance(_fitting(1.6 * self.cell, self.cell))
        cover = _cover(distance, 0.74 * self.cell) - _cover(distance, 0.74 * self.cell - max(1.5, 0.06 * self.cell))
        return _surface(WHITE, 0.8 * cover)

    def _spark(self, snake: int, age: int) -> pygame.Surface:
        old = age / AGES
        colour = np.array(SNAKE_COLOURS[snake]) * (1 - 0.5 * old) + np.array(WHITE) * 0.5 * (1 - old)
        return self._disc(0.13 * (1 - old) + 0.02, np.minimum(colour, 255), 1 - old**2)

    def _disc(self, radius: float, colour: Colour, alpha: float = 1.0) -> pygame.Surface:
        distance = _distance(_fitting(2 * radius * self.cell + 2, self.cell))
        return _surface(colour, alpha * _cover(distance, radius * self.cell))


def _fitting(pixels: float, cell: int) -> int:
    """The smallest side of at least `pixels` that can be centred in a cell: odd for odd cells, even for even ones."""
    side = max(1, int(np.ceil(pixels)))
    return side + (side - cell) % 2


def _distance(side: int) -> np.ndarray:
    """Distance of every pixel from the middle of a square."""
    line = np.arange(side) - (side - 1) / 2
    return np.hypot(line[:, None], line)


def _cover(distance: np.ndarray, radius: float) -> np.ndarray:
    """The fraction of every pixel that a disc covers."""
    return np.clip(radius - distance + 0.5, 0, 1)


def _surface(colour: Colour, alpha: np.ndarray) -> pygame.Surface:
    """A picture of one colour or of an array of colours, with the given opacity."""
    pixels = np.empty((*alpha.shape, 4), np.uint8)
    pixels[..., :3] = np.rint(colour)
    pixels[..., 3] = np.rint(np.clip(alpha, 0, 1) * 255)
    return pygame.image.frombuffer(pixels.tobytes(), alpha.shape[::-1], "RGBA").convert_alpha()


def _board(cell: int) -> pygame.Surface:
    chequer = np.add.outer(np.arange(COLUMNS), np.arange(ROWS)) % 2
    pixels = np.array(BOARD_COLOURS, np.uint8)[chequer].repeat(cell, 0).repeat(cell, 1)
    return pygame.surfarray.make_surface(pixels).convert()


def _heads(cell: int) -> list[list[pygame.Surface]]:
    """Every snake's head in every direction, with the snake's number: cut out of frame.py's picture."""
    cover = _cover(_distance(cell), HEAD_RADIUS * cell)
    heads: list[list[pygame.Surface]] = [[] for _ in range(SNAKES)]
    for direction in STEPS:
        match = {"turn": 0, "snakes": [[[0, snake]] for snake in range(SNAKES)], "beans": []}
        picture = frame(match | {"directions": [direction] * SNAKES}, cell)
        row = picture[-ROWS * cell :][:cell]
        for snake in range(SNAKES):
            cut = row[:, snake * cell : (snake + 1) * cell]
            # Pixels at the rim are mixed with the board; here they get the plain colour of the snake.
            heads[snake].append(_surface(np.where(cover[..., None] < 1, SNAKE_COLOURS[snake], cut), cover))
    return heads
