"""Means and 95 % intervals: over the seeds of a training, over matches, and of speeds measured in rounds.

Scores are arrays [runs, tasks]: one number per seed and opponent. The bootstrap is stratified: it draws the runs of
each task separately. The definitions are those of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of
the Statistical Precipice". Plain numpy, with a fixed seed: equal runs give equal intervals.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import geometric_mean, stdev, variance
from typing import NamedTuple

import numpy as np

from marl.errors import UserError
from opponents.intervals import wilson

RESAMPLES = 5_000
QUANTILES = (0.025, 0.975)  # ends of the 95 % interval
CUT = 0.25  # share of the scores that the interquartile mean leaves out at each end
SHARE_RESAMPLES = 2_000  # of the bootstrap over seeds and matches
# Factor of the standard error of a mean for a 95 % interval, by degrees of freedom (Student's t).
T95 = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
T95_MORE = 2.2

Rates = Mapping[str, float]  # row -> per second


class Estimate(NamedTuple):
    """A number with its 95 % interval; low and high are nan if the interval cannot be known."""

    value: float
    low: float
    high: float


class Ratio(NamedTuple):
    """A row's speed divided by that of the other side, and the ends of its 95 % interval."""

    row: str
    theirs: float  # per second, geometric mean of the rounds
    ours: float
    ratio: float
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


def estimate_mean_share(shares: np.ndarray, matches: int) -> Estimate:
    """The mean of shares of the points, one per seed, each of as many matches.

    Intervals: with one seed Wilson's over its matches, with several a bootstrap over seeds and matches.
    """
    value = float(shares.mean())
    if len(shares) == 1:
        return Estimate(value, *wilson(value * matches, matches))
    random = np.random.default_rng(0)
    seeds = random.integers(0, len(shares), (SHARE_RESAMPLES, len(shares)))
    means = (random.binomial(matches, np.clip(shares[seeds], 0, 1)) / matches).mean(1)
    return Estimate(value, *_interval(means))


def ratios_of_pairs(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[Ratio]:
    """Ratios of speeds, of rounds that were measured one after the other."""
    found = []
    for row in _common_rows(theirs, ours):
        logs = [math.log(mine[row] / other[row]) for other, mine in zip(theirs, ours, strict=True)]
        error = stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        found.append(_ratio(row, theirs, ours, _t95(len(logs) - 1) * error))
    return found


def ratios_of_sets(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[Ratio]:
    """Ratios of speeds, of rounds that were measured at different times."""
    found = []
    for row in _common_rows(theirs, ours):
        spread = 0.0
        for rounds in (theirs, ours):
            logs = [math.log(each[row]) for each in rounds]
            spread += variance(logs) / len(logs) if len(logs) > 1 else math.inf
        freedom = min(len(theirs), len(ours)) - 1
        found.append(_ratio(row, theirs, ours, _t95(freedom) * math.sqrt(spread)))
    return found


def _common_rows(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[str]:
    rows = [row for row in ours[0] if all(row in each for each in (*theirs, *ours))]
    if not rows:
        raise UserError("no row was measured on both sides; give the same flags")
    return rows


def _ratio(row: str, theirs: Sequence[Rates], ours: Sequence[Rates], half: float) -> Ratio:
    before, now = (geometric_mean(each[row] for each in rounds) for rounds in (theirs, ours))
    ratio = now / before
    high = ratio * math.exp(half) if half < 100 else math.inf
    return Ratio(row, before, now, ratio, ratio * math.exp(-half), high)


def _t95(freedom: int) -> float:
    return T95[freedom] if freedom < len(T95) else T95_MORE


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
