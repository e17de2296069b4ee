"""Prioritised fictitious self-play: a past self or a member of a league plays more matches the harder it is to beat."""

import math
from collections.abc import Mapping

DOUBT = 10  # lost matches added to the results against each: new ones are met first, and none drops to weight 0
DIGITS = 4  # of a share


def hardness(points: float, matches: float) -> float:
    """1 - win rate against a member, with DOUBT lost matches added: 1 for a new member, above 0 if it always lost.

    points: taken from it in that many matches, a draw as half a point.
    """
    return 1 - points / (matches + DOUBT)


def prioritised_weights(hardness_of: Mapping[str, float], power: float) -> dict[str, float]:
    """Member -> hardness to the power, divided by that of the hardest, so that not all weights underflow."""
    hardest = max(hardness_of.values(), default=1.0)
    return {name: (value / hardest) ** power for name, value in hardness_of.items()}


def prioritised_shares(
    hardness_of: Mapping[str, float], power: float, total: float, most: int, least: float
) -> dict[str, float]:
    """Member -> share of the matches, proportional to hardness to the power; together at most `total`.

    At most `most` members get a share, the hardest ones; of equals the one named first. A member whose share would be
    below `least` is left out, and the others get its share.
    """
    weights = prioritised_weights(hardness_of, power)
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
