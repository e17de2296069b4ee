"""The scale of a policy's values: the rewards of a team, scaled, are what a plan counts."""

import numpy as np
import pytest

from arena import BatchArena
from arena.rules import LENGTH, SNAKES, TEAM
from marl.config.sections import RewardConfig
from marl.planning.value_scale import LEAST_FOES, ValueScale, value_scale
from marl.rewards import PRESETS, RewardWeights, reward_of

SEED = 3
TEAM_REWARD = RewardWeights(own=1.0, mates=0.3, foes=0.3)
LEAD = RewardWeights(own=1.0, mates=1.0, foes=1.0)


@pytest.mark.parametrize(
    ("reward", "foes", "leaf"),
    [
        (None, 0.6, 1 / 1.6),
        (TEAM_REWARD, 0.6, 1 / 1.6),  # as of files that do not tell their reward
        (LEAD, 1.0, 1 / 3),
        (RewardWeights(own=2.0, mates=2.0, foes=2.0), 1.0, 1 / 6),
        (RewardWeights(own=1.0, foes=0.5), 1.5, 1.0),
        (RewardWeights(own=1.0, zero_sum=1.0), 1.0, 1.0),
        (RewardWeights(own=1.0, mates=1.0, foes=1.0, zero_sum=1.0), 1.0, 1 / 6),
        (PRESETS["score"], LEAST_FOES, 1.0),
        (PRESETS["team"], LEAST_FOES, 1 / 1.3),
        (PRESETS["win"], 0.6, 1 / 1.6),  # not in lengths
        (RewardWeights(own=-1.0), 0.6, 1 / 1.6),
    ],
)
def test_by_hand(reward, foes, leaf) -> None:
    assert value_scale(reward) == pytest.approx(ValueScale(foes, leaf))


@pytest.mark.parametrize("zero_sum", [0.0, 1.0])
@pytest.mark.parametrize("reward", [LEAD, RewardWeights(own=1.0, mates=0.5, foes=0.75)])
def test_a_teams_scaled_rewards_are_its_growth_less_the_foes(reward, zero_sum) -> None:
    """Every turn of two matches of random moves, for both teams."""
    print(f"seed {SEED}")
    weights = np.array(reward._replace(zero_sum=zero_sum), np.float64)
    scale = value_scale(reward._replace(zero_sum=zero_sum))
    arena, moves = BatchArena(2, seed=SEED), np.random.default_rng(SEED)
    arena.start()
    deaths = 0
    for _ in range(60):
        before = arena.state[:, LENGTH : LENGTH + SNAKES].numpy().astype(int)
        actions = moves.integers(0, 4, (2, SNAKES))
        events = arena.play_turn(arena.state.new_tensor(actions).char())
        deaths += int(events.died.sum())
        gained = arena.state[:, LENGTH : LENGTH + SNAKES].numpy().astype(int) - before
        for b, side in np.ndindex(2, 2):
            own = slice(side * TEAM, side * TEAM + TEAM)
            turn = arena.state[b].numpy(), events.ate[b].numpy(), events.died[b].numpy(), gained[b], False
            total = sum(reward_of(*turn, snake, weights) for snake in range(own.start, own.stop))
            mine = gained[b, own].sum()
            assert scale.leaf * total == pytest.approx(mine - scale.foes * (gained[b].sum() - mine))
    assert deaths > 10


def test_the_configurations_weights_are_those_of_a_reward() -> None:
    assert value_scale(RewardWeights(*RewardConfig(mates=1.0, foes=1.0).weights())) == value_scale(LEAD)
