"""Leagues: Bradley-Terry ratings against worked examples, and all pairs played."""

import math

import numpy as np
import pytest

from arena.errors import ArenaError
from opponents import round_robin
from opponents.match import play
from opponents.round_robin import play_round_robin, rate


@pytest.fixture
def no_prior(monkeypatch):
    monkeypatch.setattr(round_robin, "PRIOR", 0.0)


@pytest.mark.usefixtures("no_prior")
def test_two_players_at_three_to_one():
    ratings, margins = rate(np.array([[0.0, 75.0], [25.0, 0.0]]))
    assert ratings[0] - ratings[1] == pytest.approx(400 * math.log10(3), abs=1e-3)  # 190.849
    assert ratings.mean() == pytest.approx(1500)
    # The difference has the variance 1 / (100 * 0.75 * 0.25); each rating holds half of the difference.
    margin = 1.959964 / math.sqrt(18.75) * 400 / math.log(10) / 2
    assert margins == pytest.approx([margin, margin], rel=1e-4)


@pytest.mark.usefixtures("no_prior")
def test_consistent_odds_are_found_again():
    strength = np.array([4.0, 2.0, 1.0])
    ratings, _ = rate(600 * strength[:, None] / (strength[:, None] + strength))
    step = 400 * math.log10(2)
    assert ratings == pytest.approx([1500 + step, 1500, 1500 - step], abs=1e-3)


def test_the_prior_is_one_drawn_match():
    ratings, _ = rate(np.array([[0.0, 10.0], [0.0, 0.0]]))
    assert ratings[0] - ratings[1] == pytest.approx(400 * math.log10(10.5 / 0.5), abs=1e-3)


def test_a_ladder_of_perfect_scores_stays_finite():
    points = np.triu(np.full((8, 8), 1e6), 1)
    ratings, margins = rate(points)
    assert (np.diff(ratings) < 0).all()
    assert np.isfinite(margins).all()
    assert ratings.mean() == pytest.approx(1500)


def test_more_matches_make_narrower_intervals():
    points = np.array([[0.0, 60.0], [40.0, 0.0]])
    few, many = rate(points)[1], rate(100 * points)[1]
    assert few / many == pytest.approx(10, rel=0.01)


def test_all_pairs_play():
    heard = []
    table = play_round_robin(["level0", "level3", "level1"], 20, seed=2, progress=heard.append)
    assert table.names == ("level0", "level3", "level1")
    assert table.order() == [1, 2, 0]
    assert [(r.home, r.away) for r in heard] == [("level0", "level3"), ("level0", "level1"), ("level3", "level1")]
    pair = play("level3", "level1", 20, seed=2)
    assert (table.wins[1, 2], table.draws[1, 2], table.wins[2, 1]) == (pair.wins, pair.draws, pair.losses)
    points = table.points
    assert np.isnan(np.diag(points)).all()
    off = ~np.eye(3, dtype=bool)
    assert (points + points.T)[off] == pytest.approx(1)


def test_a_league_needs_different_players():
    with pytest.raises(ArenaError, match="at least two players, got 1"):
        play_round_robin(["level0"], 2)
    with pytest.raises(ArenaError, match="level1 is named 2 times"):
        play_round_robin(["level1", "level0", "level1"], 2)
