"""The board in the window: scene.py's positions, drawn with sprites. A camera can follow a snake."""

import math
from collections.abc import Collection

import numpy as np
import pygame

from arena.encoders.orientation import STEPS
from arena.render import scene
from arena.render.playback import Playback
from arena.render.theme import BEAN_COLOUR, SNAKE_COLOURS, TEXT_COLOUR
from arena.render.timeline import PolicyOutput
from arena.render.window_sprites import AGES, LEVELS, SIZES, WHITE, Sprites, text
from arena.rules import COLUMNS, ROWS

SPARKS = 9  # per death
CAMERA_SPEED = 9.0  # fraction of the remaining way that the camera moves, per second


class Camera:
    """The shift of the board around the torus, in cells."""

    def __init__(self) -> None:
        self.shift = np.zeros(2)

    def tick(self, seconds: float, head: np.ndarray | None) -> bool:
        """Move towards the shift that centres a head, or towards 0 without a head; whether it moved."""
        middle = (scene.SIZE - 1) / 2
        left = scene.nearest_turn((np.zeros(2) if head is None else middle - head) - self.shift)
        if not left.any():
            return False
        part = min(1.0, seconds * CAMERA_SPEED) if np.abs(left).max() > 0.02 else 1.0
        self.shift = (self.shift + part * left) % scene.SIZE
        return True


class Board:
    """Draws the board for cells of one size."""

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self._sprites = Sprites(cell)

    def head(self, snake: int, direction: int) -> pygame.Surface:
        """A snake's head, also shown beside the board."""
        return self._sprites.head(snake, direction, SIZES)

    def draw(
        self,
        target: pygame.Surface,
        playback: Playback,
        camera: Camera,
        show_outputs: bool,
        ringed: Collection[int] = (),
    ) -> None:
        """Draw the position of the playback onto a surface of the board's size.

        show_outputs: whether the policies' outputs are drawn. `ringed` snakes get a ring.
        """
        timeline, position = playback.timeline, playback.position
        sprites, shift = self._sprites, camera.shift
        self._draw_ground(target, shift)
        for place, size in scene.beans(timeline, position):
            self._put(target, sprites.bean(_step(size, SIZES)), np.array(place) + shift)
        snakes = scene.snakes(timeline, position, sprites.per_cell)
        for snake in snakes:
            self._draw_body(target, snake, shift)
        for snake in snakes:
            head = sprites.head(snake.number, snake.direction, _step(snake.size, SIZES))
            if snake.number in ringed:
                self._put(target, sprites.halo(), snake.head + shift)
            self._put(target, head, snake.head + shift)
        if not playback.standing:
            # At high speeds effects last more turns, so that they stay visible.
            for effect in scene.effects(timeline, position, max(1.0, playback.speed / 2)):
                self._draw_effect(target, effect, shift)
        if show_outputs:
            known = timeline.turns[playback.index].policy_outputs
            for snake in snakes:
                if snake.number in known and snake.size == 1:
                    self._draw_output(target, snake, known[snake.number], shift)

    def _draw_ground(self, target: pygame.Surface, shift: np.ndarray) -> None:
        ground = self._sprites.board
        top, left = np.rint(shift * self.cell).astype(int).tolist()
        width, height = ground.get_size()
        for x in (left, left - width) if left else (0,):
            for y in (top, top - height) if top else (0,):
                target.blit(ground, (x, y))

    def _draw_body(self, target: pygame.Surface, snake: scene.Snake, shift: np.ndarray) -> None:
        discs, sides = self._sprites.body(snake.number, _step(snake.size, SIZES))
        levels = np.rint(snake.ways * LEVELS).astype(int)
        corners, which = self._corners(snake.places + shift, sides[levels])
        levels = levels[which]
        target.blits([(discs[level], corner) for level, corner in zip(levels.tolist(), corners, strict=True)], False)
        mark = self._sprites.mark(snake.number)
        if mark is not None and snake.size == 1:
            corners, _ = self._corners(snake.marks + shift, np.full(len(snake.marks), mark.get_width()))
            target.blits([(mark, corner) for corner in corners], False)

    def _draw_effect(self, target: pygame.Surface, effect: scene.Effect, shift: np.ndarray) -> None:
        age = _step(effect.age, AGES)
        place = effect.place + shift
        if effect.died:
            self._put(target, self._sprites.ring(WHITE, age), place)
            spark = self._sprites.spark(effect.snake, age)
            for i in range(SPARKS):
                angle = 2.4 * i + effect.snake
                reach = 1.7 * (0.5 + 0.5 * (i * 5 % SPARKS) / SPARKS) * (1 - (1 - effect.age) ** 2)
                self._put(target, spark, place + reach * np.array((math.sin(angle), math.cos(angle))))
        else:
            self._put(target, self._sprites.ring(BEAN_COLOUR, age), place)
        if effect.change:
            label = text(f"{effect.change:+d}".replace("-", "−"), round(0.6 * self.cell), WHITE)
            row, column = (place - (0.4 + 0.6 * effect.age, 0)) % scene.SIZE
            spot = label.get_rect(center=((column + 0.5) * self.cell, (row + 0.5) * self.cell))
            target.blit(label, spot.clamp(target.get_rect()))

    def _draw_output(self, target: pygame.Surface, snake: scene.Snake, output: PolicyOutput, shift: np.ndarray) -> None:
        """Arrows around the head, sized by the probability of the move. The value is in the chip above the board.

        An arrow without a number means 100 %.
        """
        size = max(9, round(0.32 * self.cell))
        for move, prob in enumerate(output.moves):
            if prob < 0.005:
                continue
            step = np.array(STEPS[move], float)
            row, column = (snake.head + shift + 0.85 * step) % scene.SIZE
            across = step[::-1]
            reach = 0.14 + 0.26 * prob
            points = [(row, column) + reach * step]
            points += [(row, column) - 0.4 * reach * step + side * reach * across for side in (-1, 1)]
            corners = [((x + 0.5) * self.cell, (y + 0.5) * self.cell) for y, x in points]
            pygame.draw.polygon(target, SNAKE_COLOURS[snake.number], corners)
            pygame.draw.aalines(target, WHITE, True, corners)
            if prob >= 0.995:  # a single arrow says it
                continue
            row, column = np.array((row, column)) + 0.5 * across * (1 if move < 2 else -1)
            self._tag(target, f"{prob:.0%}", size, row, column)

    def _tag(self, target: pygame.Surface, words: str, size: int, row: float, column: float) -> None:
        label = text(words, size, TEXT_COLOUR)
        box = label.get_rect(center=((column + 0.5) * self.cell, (row + 0.5) * self.cell))
        box.clamp_ip(target.get_rect())
        ground = box.inflate(4, 0)
        pygame.draw.rect(target, (13, 15, 21), ground, border_radius=3)
        target.blit(label, box)

    def _put(self, target: pygame.Surface, sprite: pygame.Surface, place: np.ndarray) -> None:
        corners, _ = self._corners(place[None] % scene.SIZE, np.array([sprite.get_width()]))
        for corner in corners:
            target.blit(sprite, corner)

    def _corners(self, places: np.ndarray, sides: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Upper left corners in pixels (x, y) of squares around the places, and the index of the place of each.

        A square across the edge of the board appears again on the other side.
        """
        corners = np.rint((places % scene.SIZE + 0.5) * self.cell - sides[:, None] / 2).astype(int)
        which = np.arange(len(places))
        for axis, cells in ((0, ROWS), (1, COLUMNS)):
            length = cells * self.cell
            for out, way in ((corners[:, axis] < 0, length), (corners[:, axis] + sides[which] > length, -length)):
                if out.any():
                    again = corners[np.flatnonzero(out)]
                    again[:, axis] += way
                    corners, which = np.concatenate((corners, again)), np.concatenate((which, which[: len(out)][out]))
        return list(zip(corners[:, 1].tolist(), corners[:, 0].tolist(), strict=True)), which


def _step(fraction: float, steps: int) -> int:
    return min(max(round(fraction * steps), 1), steps)
