"""Shapes and the bodies that consist of them, compared with the distance of every pixel to densely set discs."""

import numpy as np
import pytest
from helpers.viewed import MATCH, wild_match

from arena.render import scene
from arena.render.frame import body, frame, per_cell
from arena.render.shapes import dots, draw, lines
from arena.render.theme import MARK_ALPHA, NECK_RADIUS, PUPIL_COLOUR, SNAKE_COLOURS, TAIL_RADIUS, TAIL_SHADE
from arena.render.timeline import Timeline, Turn, recorded_timeline

DENSE = 60  # discs per cell


def drawn_bodies(timeline: Timeline, position: float, cell: int, ground: int) -> np.ndarray:
    """The bodies on a ground of one brightness, without heads and marks."""
    picture = np.full((10 * cell, 20 * cell, 3), ground, np.uint8)
    snakes = scene.snakes(timeline, position, per_cell(cell))
    draw(picture, [np.concatenate([body(snake, per_cell(cell)) for snake in snakes])], cell)
    return picture.astype(float)


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


@pytest.mark.parametrize(("cell", "position"), [(12, 0), (16, 0), (16, 2.7), (25, 4.7)])
def test_bodies_have_smooth_edges_where_they_end(cell, position):
    """Random match: bends, edges of the board, gaps, snakes that appear and disappear."""
    timeline = recorded_timeline(wild_match(8))
    opacity, colours = expected(timeline, position, cell)
    on_black, on_white = (drawn_bodies(timeline, position, cell, ground) for ground in (0, 255))
    wrong = np.abs(1 - (on_white - on_black).mean(-1) / 255 - opacity)
    assert 0.2 < opacity.sum() / (opacity > 0).sum() < 1
    assert wrong.max() < 0.5  # in narrow bends beside a tail; radii are quarters of a pixel
    assert wrong[opacity > 0].mean() < 0.02
    inside = opacity == 1
    off = np.abs(on_black[inside] - colours[inside]).max(-1)
    assert (off > 14).mean() < 0.01  # more where two snakes collide


def test_straight_edges_have_no_waves():
    straight = MATCH | {"snakes": [[[4, column] for column in range(18, 1, -1)], [], [], [], [], []]}
    timeline = Timeline("", "", [Turn(straight)])
    on_black, on_white = (drawn_bodies(timeline, 0, 16, ground) for ground in (0, 255))
    height = (1 - (on_white - on_black).mean(-1) / 255).sum(0)[3 * 16 : 17 * 16]  # of the body in pixels, tail to neck
    assert (np.diff(height) > -0.02).all()
    assert 0.25 * 32 - 0.25 < height[0] < height[-1] < 0.4 * 32


def test_marks_lie_on_the_middle_of_the_segments():
    cell = 20
    drawn = frame(MATCH, cell)[-10 * cell :].astype(int)

    def darker(row: int, column: int, off: float) -> bool:
        """Whether a pixel `off` cells right of a segment's middle is darker than one between mark and edge."""
        y, x = int((row + 0.5) * cell), int((column + 0.5 + off) * cell)
        return drawn[y, x].sum() < 0.8 * drawn[int((row + 0.74) * cell), x].sum()

    assert not darker(4, 2, 0)  # snake 0: no marks
    assert darker(0, 19, 0)  # snake 1: dots, also beyond the edge
    assert darker(6, 14, 0)  # snake 4: dots
    assert darker(8, 7, -0.15)  # snake 2: rings with a hole
    assert not darker(8, 7, 0)
    shade = np.array(SNAKE_COLOURS[4]) * (1 + (TAIL_SHADE - 1) / 2)
    mark = shade + MARK_ALPHA * (np.array(PUPIL_COLOUR) - shade)
    assert np.abs(drawn[int(6.5 * cell), int(14.5 * cell)] - mark).max() < 8


def test_a_shape_covers_a_pixel_once_and_the_next_shape_again():
    red = (255, 0, 0)
    twice = dots([(1, 1), (1, 1)], 0.4, red, alpha=0.5)
    one, two = (np.zeros((30, 30, 3), np.uint8) for _ in range(2))
    draw(one, [twice], 10)
    draw(two, [twice[:1], twice[1:]], 10)
    assert one[15, 15].tolist() == [128, 0, 0]
    assert two[15, 15].tolist() == [192, 0, 0]
    assert one[15, 9:13, 0].tolist()[:1] == [0]


def test_a_line_longer_than_the_picture_meets_itself():
    picture = np.zeros((40, 40, 3), np.uint8)
    draw(picture, [lines([(1, 0)], [(1, 9)], (0.3, 0.3), ((90, 90, 90), (90, 90, 90)), alpha=0.5)], 10)
    assert (picture[13:17] == 45).all()
    assert not picture[:10].any()


def test_colours_and_radii_go_from_the_start_to_the_end():
    picture = np.zeros((30, 100, 3), np.uint8)
    draw(picture, [lines([(1, 1)], [(1, 8)], (0.4, 0.2), ((200, 0, 0), (60, 0, 0)))], 10)
    row = picture[15, 15:85, 0].astype(int)
    assert (np.diff(row) <= 0).all()
    assert np.abs(row[[0, 35, -1]] - (199, 130, 61)).max() <= 3
    assert (picture[..., 0] > 0).sum(0)[15] > (picture[..., 0] > 0).sum(0)[84]
