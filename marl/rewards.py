"""Rewards: the weights of their parts, and presets of these weights."""

from typing import NamedTuple


class RewardWeights(NamedTuple):
    """Weights of the parts of a snake's reward; marl/config/reward_config.py describes each part."""

    own: float = 0.0
    mates: float = 0.0
    foes: float = 0.0
    eat: float = 0.0
    die: float = 0.0
    lead: float = 0.0
    win: float = 0.0
    zero_sum: float = 0.0  # 1: the mean reward of the three foes is subtracted


# A new preset is one line here.
PRESETS = {
    "score": RewardWeights(own=1.0),
    "team": RewardWeights(own=1.0, mates=0.15, foes=0.15),
    "win": RewardWeights(win=10.0),
    "shaped": RewardWeights(own=1.0, mates=0.15, foes=0.15, eat=0.2, die=0.5, lead=0.01, win=3.0),
}
