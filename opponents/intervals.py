"""Confidence intervals. No torch: the list of runs shows intervals at once."""

import math
from collections.abc import Iterable

NORMAL_95 = 1.959964  # standard deviations on each side that contain 95 % of a normal distribution


def margin_of_mean(intervals: Iterable[tuple[float, float]]) -> float:
    """Half the width of the 95 % interval of the mean of some rates, by theirs."""
    halves = [(high - low) / 2 for low, high in intervals]
    return math.hypot(*halves) / len(halves)


def wilson(wins: float, matches: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate: stays within 0 and 1, and has a width even if all matches were won."""
    rate, weight = wins / matches, NORMAL_95**2 / matches
    middle = (rate + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (rate * (1 - rate) + weight / 4)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)
