"""The learning curve: what is read from metric lines, its axes, and a picture that shows each part."""

import numpy as np
import pytest

from marl.pictures.canvas import PAPER
from marl.pictures.learning_curve import COLOURS, NAME_GAP, Measured, draw, read_curves, spread, ticks, time_at

LINES = [
    {"step": 0, "eval/win_rate_level0": 0.1, "eval_low/level0": 0.05, "eval_high/level0": 0.3, "time/seconds": 0.0},
    {"step": 50, "losses/actor": 1.0, "time/seconds": 30.0},
    {"step": 100, "eval/win_rate_level0": 0.8, "eval_low/level0": 0.6, "eval_high/level0": 0.9, "time/seconds": 40.0},
    {"step": 100, "eval/win_rate_level1": 0.2},  # of an earlier version: no interval
    {"step": 150, "eval/win_rate_level1": None},
]


def test_the_evaluations_of_a_run():
    assert read_curves(LINES) == {
        "level0": [Measured(0, 0.1, 0.05, 0.3), Measured(100, 0.8, 0.6, 0.9)],
        "level1": [Measured(100, 0.2, 0.2, 0.2)],
    }


@pytest.mark.parametrize(
    ("last", "expected"),
    [(1, [0, 1]), (3, [0, 1, 2, 3]), (2_002, [0, 500, 1_000, 1_500, 2_000]), (50_002, [0, 20_000, 40_000])],
)
def test_ticks_are_round_numbers(last, expected):
    assert ticks(last) == expected


def test_the_time_of_an_episode():
    times = [(0, 0.0), (50, 30.0), (100, 40.0)]
    assert [time_at(times, step) for step in (0, 25, 50, 75, 100, 200)] == [0, 15, 30, 35, 40, 40]


def test_names_keep_apart_and_stay_near_their_lines():
    assert spread([]) == []
    assert spread([10.0, 200.0]) == [10.0, 200.0]
    assert spread([50.0, 50.0, 50.0]) == [50.0 - NAME_GAP, 50.0, 50.0 + NAME_GAP]
    generator = np.random.default_rng(7)
    print("seed 7")
    for _ in range(50):
        heights = sorted(generator.uniform(0, 100, 6))
        placed = spread(heights)
        assert np.diff(placed).min() >= NAME_GAP - 1e-9
        assert np.mean(placed) == pytest.approx(np.mean(heights))


def test_the_picture_shows_curve_and_interval():
    assert draw("run", [{"step": 1, "losses/actor": 1.0}]) is None
    pixels = np.asarray(draw("run", LINES))
    assert (pixels == COLOURS[0]).all(2).sum() > 1000  # the line
    band = np.round(np.array(COLOURS[0]) * 0.15 + np.array(PAPER) * 0.85)
    assert (abs(pixels - band) <= 2).all(2).sum() > 10_000  # the interval around it
    assert (pixels == COLOURS[1]).all(2).sum() > 50  # one point of the other opponent
