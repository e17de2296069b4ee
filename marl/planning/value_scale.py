"""What a planner makes of a policy's values: they are in the rewards of its training, a plan is in cells of lead.

The rewards of a team's three snakes add up to

    own growth * (own + 2 * mates) - foes' growth * 3 * foes

with the weights of marl/rewards.py, and so do their values. Divided by the first factor they are cells of the own
team's length, as a plan counts them, and the foes' growth has the weight 3 * foes / (own + 2 * mates).
"""

from typing import NamedTuple

from arena.rules import TEAM
from marl.rewards import RewardWeights

LEAST_FOES = 0.6  # weight of the foes' growth: a match is won by the lead, also by a policy that learned its own growth


class ValueScale(NamedTuple):
    foes: float  # weight of the foes' growth
    leaf: float  # cells in a value


UNTOLD = ValueScale(LEAST_FOES, 1 / 1.6)  # of rewards of 0.3 for mates and foes: older files do not tell theirs


def value_scale(reward: RewardWeights | None) -> ValueScale:
    """The scale of values that were learned from this reward; the default if they are not in lengths."""
    if reward is None:
        return UNTOLD
    own, foes = reward.own + (TEAM - 1) * reward.mates, TEAM * reward.foes
    if reward.zero_sum:  # less what the foes get
        own = foes = own + foes
    return ValueScale(max(LEAST_FOES, foes / own), 1 / own) if own > 0 else UNTOLD
