"""Prioritised fictitious self-play: shares of the matches for members of a league, more for those that win more."""

import math
from collections.abc import Mapping

from opponents.scheduler import DOUBT

DIGITS = 4  # of a share


def hardness(points: float, matches: int) -> float:
    """1 - win rate against a member, with DOUBT lost matches added: above 0 also for a member that always lost.

    points: taken from it in that many matches, a draw as half a point.
    """
    return 1 - points / (matches + DOUBT)


def prioritised_shares(
    hardness_of: Mapping[str, float], power: float, total: float, most: int, least: float
) -> dict[str, float]:
    """Member -> share of the matches, proportional to hardness to the power; together at most `total`.

    At most `most` members get a share, the hardest ones; of equals the one named first. A member whose share would be
    below `least` is left out, and the others get its share.
    """
    hardest = max(hardness_of.values(), default=1.0)  # gets weight 1, so that not all weights underflow
    weights = {name: (value / hardest) ** power for name, value in hardness_of.items()}
    chosen = sorted(weights, key=lambda name: -weights[name])[:most]  # stable
    while chosen:
        sum_of_weights = sum(weights[name] for name in chosen)
        shares = {name: total * weights[name] / sum_of_weights for name in weights if name in chosen}
        if shares[chosen[-1]] >= least:
            return {name: _rounded_down(share) for name, share in shares.items()}
        chosen.pop()
    return {}


def _rounded_down(share: float) -> float:
    """So that the rounded shares never add up to more than their total."""
    return math.floor(share * 10**DIGITS + 1e-6) / 10**DIGITS
