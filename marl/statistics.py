"""Statistics over the seeds of a training: interquartile means, bootstrap intervals, probability of improvement.

Scores are arrays [runs, tasks]: one number per seed and opponent. The bootstrap is stratified: it draws the runs of
each task separately. The definitions are those of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of
the Statistical Precipice". Plain numpy, with a fixed seed: equal runs give equal intervals.
"""

from typing import NamedTuple

import numpy as np

RESAMPLES = 5_000
QUANTILES = (0.025, 0.975)  # ends of the 95 % interval
CUT = 0.25  # share of the scores that the interquartile mean leaves out at each end


class Estimate(NamedTuple):
    """A number with its 95 % interval; low and high are nan if the interval cannot be known."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of the scores, along the last axis.

    A quarter of the scores is left out at each end, rounded down: of three scores none, of four the least and largest.
    """
    number = scores.shape[-1]
    cut = int(CUT * number)
    return np.sort(scores, axis=-1)[..., cut : number - cut].mean(-1)


def estimate_iqm(scores: np.ndarray, resamples: int = RESAMPLES) -> Estimate:
    """The interquartile mean over all scores [runs, tasks], with a stratified bootstrap interval."""
    scores = _as_matrix(scores)
    value = float(interquartile_mean(scores.reshape(-1)))
    if len(scores) < 2:
        return Estimate(value, float("nan"), float("nan"))
    random = np.random.default_rng(0)
    drawn = _resample(scores, resamples, random)
    return Estimate(value, *_interval(interquartile_mean(drawn.reshape(resamples, -1))))


def probability_of_improvement(scores: np.ndarray, others: np.ndarray) -> float:
    """Probability that a run of `scores` is better than one of `others` on the same task; mean over the tasks.

    For one task this is the Mann-Whitney U statistic divided by the number of pairs; a tie counts half.
    """
    return float(_improvement(_as_matrix(scores)[None], _as_matrix(others)[None])[0])


def estimate_improvement(scores: np.ndarray, others: np.ndarray) -> Estimate:
    """The probability of improvement, with a stratified bootstrap interval over the runs of both sides."""
    scores, others = _as_matrix(scores), _as_matrix(others)
    value = probability_of_improvement(scores, others)
    if min(len(scores), len(others)) < 2:
        return Estimate(value, float("nan"), float("nan"))
    random = np.random.default_rng(0)
    drawn = (_resample(each, RESAMPLES, random) for each in (scores, others))
    return Estimate(value, *_interval(_improvement(*drawn)))


def estimate_pair_mean(points: np.ndarray) -> Estimate:
    """The mean of points [home runs, away runs], with a bootstrap over the runs of both sides.

    A run takes part in a whole row or column, so rows and columns are drawn, not single cells.
    """
    points = _as_matrix(points)
    value = float(points.mean())
    if min(points.shape) < 2:
        return Estimate(value, float("nan"), float("nan"))
    random = np.random.default_rng(0)
    rows, columns = (random.integers(0, size, (RESAMPLES, size)) for size in points.shape)
    return Estimate(value, *_interval(points[rows[:, :, None], columns[:, None, :]].mean((1, 2))))


def _as_matrix(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    return scores[:, None] if scores.ndim == 1 else scores


def _resample(scores: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    """[resamples, runs, tasks]: the runs of each task drawn with replacement."""
    runs, tasks = scores.shape
    drawn = random.integers(0, runs, (resamples, runs, tasks))
    return scores[drawn, np.arange(tasks)]


def _improvement(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[resamples]: the probability of improvement of [resamples, runs, tasks] over the same of another side."""
    total = np.zeros(len(scores))
    for i in range(scores.shape[1]):  # one run at a time: all pairs at once would take runs times the memory
        run = scores[:, i : i + 1]
        total += ((run > others) + 0.5 * (run == others)).mean((1, 2))
    return total / scores.shape[1]


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, QUANTILES)
    return float(low), float(high)
