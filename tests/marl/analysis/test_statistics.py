"""Interquartile means, bootstrap intervals and probabilities of improvement: cases by hand, and known properties."""

import itertools
import math

import numpy as np
import pytest

from marl.analysis.statistics import (
    _resample,
    estimate_improvement,
    estimate_iqm,
    estimate_pair_mean,
    interquartile_mean,
    probability_of_improvement,
)

SEED = 5


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([0.3], 0.3),
        ([0.0, 0.6], 0.3),
        ([0.0, 0.5, 1.0], 0.5),  # a quarter of three is none
        ([100.0, 0.2, 0.4, -100.0], 0.3),  # the middle two
        ([9, 0, 1, 2, 3, 4, 5, 6, 7, 8], 4.5),  # a quarter of ten, rounded down: 2 to 7
        ([0, 0, 0, 0, 1, 1, 1, 1], 0.5),
    ],
)
def test_interquartile_mean_by_hand(scores, mean) -> None:
    assert interquartile_mean(np.array(scores, float)) == pytest.approx(mean)


def test_the_mean_of_several_tasks_is_over_all_their_scores() -> None:
    scores = np.array([[0.0, 1.0], [0.2, 0.8]])
    assert estimate_iqm(scores).value == pytest.approx(0.5)
    assert estimate_iqm(scores).value == interquartile_mean(scores.reshape(-1))


def test_the_bootstrap_is_stratified() -> None:
    """Tasks on different levels: drawing runs within each task keeps the level of both, so the interval is narrow."""
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    scores = np.array([0.1, 0.9]) + 0.01 * random.standard_normal((10, 2))
    estimate = estimate_iqm(scores)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.high - estimate.low < 0.6, "a bootstrap over all scores would draw one task only"
    wide = estimate_iqm(scores.reshape(-1))  # one task with all scores
    assert wide.high - wide.low > estimate.high - estimate.low


def test_each_task_draws_its_own_runs_with_replacement() -> None:
    print(f"seed {SEED}")
    runs, tasks = 6, 3
    scores = np.arange(runs * tasks, dtype=float).reshape(runs, tasks)
    drawn = _resample(scores, 200, np.random.default_rng(SEED))
    assert drawn.shape == (200, runs, tasks)
    run, task = np.divmod(drawn.astype(int), tasks)
    assert (task == np.arange(tasks)).all(), "a score stays in its task"
    assert not (run[..., 0] == run[..., 1]).all(1).any(), "two tasks draw separately"
    assert max(len({*row}) for row in run[..., 0].tolist()) > min(len({*row}) for row in run[..., 0].tolist())
    assert {*run.ravel().tolist()} == {*range(runs)}


def test_the_interval_covers_the_truth() -> None:
    """In about 95 of 100 samples; percentile intervals of 15 runs are known to be a little narrow."""
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    covered = [
        (estimate := estimate_iqm(random.normal(0.5, 0.1, 15), 500)).low <= 0.5 <= estimate.high for _ in range(200)
    ]
    assert 0.85 <= np.mean(covered) <= 0.99


def test_one_run_has_no_interval_and_equal_runs_have_a_narrow_one() -> None:
    alone = estimate_iqm(np.array([0.4]))
    assert alone.value == 0.4
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert estimate_iqm(np.array([0.4, 0.4, 0.4])) == pytest.approx((0.4, 0.4, 0.4))
    assert math.isnan(estimate_improvement(np.array([0.4]), np.array([0.1, 0.2])).low)


def test_equal_data_give_equal_intervals() -> None:
    scores = np.array([0.1, 0.5, 0.7, 0.2])
    assert estimate_iqm(scores) == estimate_iqm(scores)


@pytest.mark.parametrize(
    ("scores", "others", "probability"),
    [
        ([1, 2, 3], [0, 0], 1.0),
        ([0, 0], [1, 2, 3], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([1, 3], [2, 2], 0.5),
        ([1, 2, 2], [2, 0], 4 / 6),  # three pairs won, two tied
    ],
)
def test_probability_of_improvement_by_hand(scores, others, probability) -> None:
    assert probability_of_improvement(np.array(scores, float), np.array(others, float)) == pytest.approx(probability)


def test_it_is_mann_whitneys_u_over_all_pairs_and_the_mean_of_the_tasks() -> None:
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    scores, others = random.integers(0, 5, (6, 3)) / 4, random.integers(0, 5, (4, 3)) / 4
    by_task = []
    for a, b in zip(scores.T, others.T, strict=True):
        # U from the sum of the ranks of `a` among all scores; ties share their mean rank.
        ranks = [np.mean(np.flatnonzero(np.sort([*a, *b]) == value)) + 1 for value in a]
        by_task.append((sum(ranks) - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)))
    assert probability_of_improvement(scores, others) == pytest.approx(np.mean(by_task))
    assert probability_of_improvement(scores, others) + probability_of_improvement(others, scores) == pytest.approx(1)
    estimate = estimate_improvement(scores, others)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_the_mean_of_pairs_is_drawn_by_rows_and_columns() -> None:
    points = np.array([[1.0, 1.0], [0.0, 0.0]])  # all depends on the run of the home side
    estimate = estimate_pair_mean(points)
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.0, 1.0)
    assert estimate_pair_mean(points.T) == (0.5, 0.0, 1.0)  # all depends on the run of the away side
    draws = {np.mean([points[i, j] for i in rows for j in columns]) for rows, columns in itertools.product(
        itertools.product((0, 1), repeat=2), repeat=2
    )}  # fmt: skip
    assert draws == {0.0, 0.5, 1.0}
    assert math.isnan(estimate_pair_mean(np.array([[0.5, 0.7]])).low)
