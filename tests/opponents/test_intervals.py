"""Confidence intervals, against published examples."""

import pytest

from opponents.intervals import margin_of_mean, wilson


@pytest.mark.parametrize(
    ("wins", "matches", "low", "high"),
    [
        # The examples of Newcombe (1998), method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # By hand: (0.5 + 0.19207) / 1.38415 -+ 1.95996 * sqrt(0.025 + 0.0096036) / 1.38415
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilsons_interval(wins, matches, low, high):
    assert wilson(wins, matches) == pytest.approx((low, high), abs=6e-5)


def test_the_margin_of_a_mean():
    assert margin_of_mean([(0.4, 0.6)]) == pytest.approx(0.1)
    assert margin_of_mean([(0.4, 0.6), (0.9, 0.9)]) == pytest.approx(0.05)
    assert margin_of_mean([(0.2, 0.8), (0.1, 0.9)]) == pytest.approx(0.25), "half of 0.3 and 0.4 at a right angle"
