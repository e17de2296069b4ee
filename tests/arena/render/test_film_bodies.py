"""Bodies as film_bodies.py draws them, compared with the distance of every pixel to densely set discs."""

import numpy as np
import pytest
from helpers.viewed import MATCH, wild_match

from arena.render import film_bodies, scene
from arena.render.frame import MARK_ALPHA, NECK_RADIUS, PUPIL_COLOUR, SNAKE_COLOURS, TAIL_RADIUS, TAIL_SHADE
from arena.render.timeline import Timeline, Turn, recorded_timeline

DENSE = 60  # discs per cell


def snakes_at(timeline: Timeline, position: float, cell: int) -> list[scene.Snake]:
    return scene.snakes(timeline, position, film_bodies.per_cell(cell))


def expected(timeline: Timeline, position: float, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Opacity, 0 to 1, and colours of all pixels."""
    middle = np.stack(np.indices((10 * cell, 20 * cell)), -1)
    middle = (middle + 0.5) / cell - 0.5
    deepest = np.full(middle.shape[:2], -9.0)
    colours = np.zeros((*middle.shape[:2], 3))
    for snake in scene.snakes(timeline, position, DENSE):
        for place, way in zip(snake.places, snake.ways, strict=True):
            radius = (NECK_RADIUS + (TAIL_RADIUS - NECK_RADIUS) * way) * snake.size
            near = np.ix_(*(np.arange(int(x * cell) - cell, int(x * cell) + 2 * cell) for x in place))
            near = tuple(line % size for line, size in zip(near, deepest.shape, strict=True))
            depth = radius - np.hypot(*np.moveaxis(scene.nearest_turn(middle[near] - place), -1, 0))
            colours[near] = np.where(
                (depth > deepest[near])[..., None],
                np.array(SNAKE_COLOURS[snake.number]) * (1 + (TAIL_SHADE - 1) * way),
                colours[near],
            )
            deepest[near] = np.maximum(deepest[near], depth)
    return np.clip(deepest * cell + 0.5, 0, 1), colours


@pytest.mark.parametrize(("cell", "position"), [(12, 0), (16, 0), (16, 2.7), (20, 6.4), (33, 4.7)])
def test_bodies_have_smooth_edges_where_they_end(cell, position):
    """Random match: bends, edges of the board, gaps, snakes that appear and disappear."""
    timeline = recorded_timeline(wild_match(8))
    opacity, colours = expected(timeline, position, cell)
    snakes = [snake._replace(marks=snake.marks[:0]) for snake in snakes_at(timeline, position, cell)]
    (drawn,) = film_bodies.bodies([snakes], cell).astype(float)
    wrong = np.abs(drawn[..., 3] / 255 - opacity)
    assert 0.2 < opacity.sum() / (opacity > 0).sum() < 1
    assert wrong.max() < 0.5  # in narrow bends beside a tail; radii are quarters of a pixel
    assert wrong[opacity > 0].mean() < 0.02
    inside = opacity == 1
    off = np.abs(drawn[inside, :3] - colours[inside]).max(-1)
    assert (off > 14).mean() < 0.01  # a step from disc to disc of a short snake; more where two snakes collide


def test_straight_edges_have_no_waves():
    straight = MATCH | {"snakes": [[[4, column] for column in range(18, 1, -1)], [], [], [], [], []]}
    (drawn,) = film_bodies.bodies([snakes_at(Timeline("", "", [Turn(straight)]), 0, 16)], 16)
    height = drawn[..., 3].sum(0, dtype=int)[3 * 16 : 17 * 16] / 255  # of the body in pixels, tail to neck
    assert (np.diff(height) > -0.02).all()
    assert 0.25 * 32 - 0.25 < height[0] < height[-1] < 0.4 * 32


def test_pictures_of_several_moments_and_of_none():
    timeline = recorded_timeline(wild_match(8))
    moments = [snakes_at(timeline, position, 12) for position in (0, 2.7, 5)]
    together = film_bodies.bodies([moments[0], [], *moments[1:]], 12)
    assert not together[1].any()
    for snakes, picture in zip(moments, together[[0, 2, 3]], strict=True):
        assert np.array_equal(film_bodies.bodies([snakes], 12)[0], picture)
    assert film_bodies.bodies([], 12).shape == (0, 120, 240, 4)


def test_small_blocks_make_the_same_picture(monkeypatch):
    snakes = snakes_at(recorded_timeline(wild_match(8)), 2.7, 12)
    whole = film_bodies.bodies([snakes], 12)
    monkeypatch.setattr(film_bodies, "BLOCK", 1000)
    assert np.array_equal(film_bodies.bodies([snakes], 12), whole)


def test_marks_lie_on_the_middle_of_the_segments():
    cell = 20
    (drawn,) = film_bodies.bodies([snakes_at(Timeline("", "", [Turn(MATCH)]), 0, cell)], cell)
    drawn = drawn.astype(int)

    def darker(row: int, column: int, off: float) -> bool:
        """Whether a pixel `off` cells right of a segment's middle is darker than one between mark and edge."""
        y, x = int((row + 0.5) * cell), int((column + 0.5 + off) * cell)
        return drawn[y, x, :3].sum() < 0.8 * drawn[int((row + 0.74) * cell), x, :3].sum()

    assert not darker(4, 2, 0)  # snake 0: no marks
    assert darker(0, 19, 0)  # snake 1: dots, also beyond the edge
    assert darker(6, 14, 0)  # snake 4: dots
    assert not darker(7, 7, -0.15)  # snake 2: no mark under the head
    assert darker(8, 7, -0.15)  # snake 2: rings with a hole
    assert not darker(8, 7, 0)
    shade = np.array(SNAKE_COLOURS[4]) * (1 + (TAIL_SHADE - 1) / 2)
    mark = shade + MARK_ALPHA * (np.array(PUPIL_COLOUR) - shade)
    assert np.abs(drawn[int(6.5 * cell), int(14.5 * cell), :3] - mark).max() < 8
