"""Rewards: what a snake gets for a turn, as a weighted sum; the weights come from a preset or from the configuration.

To add a preset, add a line to PRESETS; to add a term, add a weight to RewardWeights and its addend to own_reward.
"""

import math
from typing import Any, NamedTuple

from arena.jit import njit
from arena.rules import LENGTH, TEAM, first_foe, first_mate
from marl.errors import UserError


class RewardWeights(NamedTuple):
    """Weights of the terms of a snake's reward, per turn. Lengths grow by 1 for a bean and fall back at a death."""

    own: float = 0.0  # change of the own length
    mates: float = 0.0  # change of the two mates' lengths
    foes: float = 0.0  # change of the three foes' lengths, counted against the snake
    eat: float = 0.0  # eating a bean
    die: float = 0.0  # cost of dying
    lead: float = 0.0  # leading on this turn; as much against the snake for trailing
    win: float = 0.0  # at the end: winning; as much against the snake for losing
    zero_sum: float = 0.0  # 1: subtract the foes' mean reward


OWN, MATES, FOES, EAT, DIE, LEAD, WIN, ZERO_SUM = range(len(RewardWeights._fields))

PRESETS = {
    "score": RewardWeights(own=1.0),
    "team": RewardWeights(own=1.0, mates=0.15, foes=0.15),
    "win": RewardWeights(win=10.0),
    "shaped": RewardWeights(own=1.0, mates=0.15, foes=0.15, eat=0.2, die=0.5, lead=0.01, win=3.0),
}


def weights_of(reward: Any) -> RewardWeights:
    """The weights of a preset, or these weights themselves; compiled code reads them without a look at their number."""
    weights = PRESETS.get(reward) if isinstance(reward, str) else reward
    if not isinstance(weights, RewardWeights):
        what = f"reward is {reward!r}" if weights is None or weights is reward else f"preset {reward} is {weights!r}"
        raise UserError(f"{what}; allowed: {', '.join(PRESETS)}, or RewardWeights(...)")
    if not all(isinstance(weight, (int, float)) and math.isfinite(weight) for weight in weights):
        raise UserError(f"reward is {weights}; its weights must be finite numbers")
    return weights


@njit
def sign(number):
    return 1 if number > 0 else -1 if number < 0 else 0


@njit
def own_reward(match, ate, died, gained, over, snake, weights):
    """The weighted terms of one snake. match, ate, died, gained (change of length): rows of one match."""
    team = first_mate(snake)
    foes = first_foe(snake)
    mates_gained = 0
    foes_gained = 0
    lead = 0
    for k in range(TEAM):
        foes_gained += int(gained[foes + k])
        if team + k != snake:
            mates_gained += int(gained[team + k])
        lead += int(match[LENGTH + team + k]) - int(match[LENGTH + foes + k])
    reward = weights[OWN] * int(gained[snake]) + weights[MATES] * mates_gained - weights[FOES] * foes_gained
    if ate[snake]:
        reward += weights[EAT]
    if died[snake]:
        reward -= weights[DIE]
    reward += weights[LEAD] * sign(lead)
    if over:
        reward += weights[WIN] * sign(lead)
    return reward


@njit
def reward_of(match, ate, died, gained, over, snake, weights):
    """The reward of one snake for the turn just played; zero-sum: minus the mean reward of its foes."""
    reward = own_reward(match, ate, died, gained, over, snake, weights)
    if weights[ZERO_SUM] != 0:
        foes = first_foe(snake)
        for k in range(TEAM):
            reward -= own_reward(match, ate, died, gained, over, foes + k, weights) / TEAM
    return reward
