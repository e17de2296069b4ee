"""Rewards worked by hand, as a rollout stores them: every weight, the presets, zero-sum, both colours."""

import numpy as np
import pytest
from helpers.finished_turn import PLAIN, FinishedTurn

from arena.rules import LENGTH, SNAKES
from marl import rewards
from marl.config.sections import RewardConfig
from marl.rewards import RewardWeights

# Of the turn in helpers/finished_turn.py.
REWARDS = [  # weights, match over, rewards of red's three snakes, of blue's
    ({}, False, (0, 0, 0), (0, 0, 0)),
    ({"own": 1.0}, False, (1, -2, 0), (1, 0, -3)),
    ({"mates": 1.0}, False, (-2, 1, -1), (-3, -2, 1)),
    ({"foes": 1.0}, False, (2, 2, 2), (1, 1, 1)),
    ({"eat": 2.0}, False, (2, 0, 0), (2, 0, 0)),
    ({"die": 4.0}, False, (0, -4, 0), (0, 0, -4)),
    ({"lead": 0.5}, False, (0.5, 0.5, 0.5), (-0.5, -0.5, -0.5)),
    ({"lead": 0.5}, True, (0.5, 0.5, 0.5), (-0.5, -0.5, -0.5)),
    ({"win": 8.0}, False, (0, 0, 0), (0, 0, 0)),
    ({"win": 8.0}, True, (8, 8, 8), (-8, -8, -8)),
    (
        {"own": 1.0, "mates": 0.5, "foes": 0.25, "eat": 2.0, "die": 4.0, "lead": 0.125, "win": 8.0},
        True,
        (1 - 1 + 0.5 + 2 + 8.125, -2 + 0.5 + 0.5 - 4 + 8.125, 0 - 0.5 + 0.5 + 8.125),
        (1 - 1.5 + 0.25 + 2 - 8.125, 0 - 1 + 0.25 - 8.125, -3 + 0.5 + 0.25 - 4 - 8.125),
    ),
]


@pytest.mark.parametrize(("weights", "over", "red", "blue"), REWARDS)
def test_rewards_worked_by_hand(weights, over, red, blue) -> None:
    finished = FinishedTurn(2, weights=weights)
    finished.play_table()
    finished.events.over[:] = over
    finished.teams.side[:] = 0, 1
    finished.finish()
    assert finished.rows.rewards[0].tolist() == [list(red), list(blue)]
    swapped = FinishedTurn(2, weights=weights)
    swapped.play_table(swap=True)
    swapped.events.over[:] = over
    swapped.teams.side[:] = 1, 0
    swapped.finish()
    assert swapped.rows.rewards[0].tolist() == [list(red), list(blue)], "colours must not matter"


# The same turn, over, by presets: team is own + 0.15 mates - 0.15 foes, shaped adds eating, dying, leading, winning.
PRESETS = {
    "score": ((1, -2, 0), (1, 0, -3)),
    "team": ((1 - 0.3 + 0.3, -2 + 0.15 + 0.3, -0.15 + 0.3), (1 - 0.45 + 0.15, -0.3 + 0.15, -3 + 0.15 + 0.15)),
    "win": ((10, 10, 10), (-10, -10, -10)),
    "shaped": (
        (1 + 0.2 + 3.01, -1.55 - 0.5 + 3.01, 0.15 + 3.01),
        (0.7 + 0.2 - 3.01, -0.15 - 3.01, -2.7 - 0.5 - 3.01),
    ),
}


@pytest.mark.parametrize("zero_sum", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
def test_rewards_of_presets_worked_by_hand(preset, zero_sum) -> None:
    """Zero-sum, each snake's less the mean of its foes': what all six get adds up to nothing."""
    finished = FinishedTurn(2, weights=dict.fromkeys(PLAIN) | {"preset": preset, "zero_sum": zero_sum})
    finished.play_table()
    finished.events.over[:] = True
    finished.teams.side[:] = 0, 1
    finished.finish()
    red, blue = (np.array(team) for team in PRESETS[preset])
    if zero_sum:
        red, blue = red - blue.mean(), blue - red.mean()
        assert finished.rows.rewards[0].sum() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(finished.rows.rewards[0], [red, blue], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("what", ["lead", "win"])
def test_a_tie_is_neither_a_lead_nor_a_win(what) -> None:
    finished = FinishedTurn(2, weights={what: 1.0})
    finished.state[:, LENGTH : LENGTH + SNAKES] = 3, 4, 5, 5, 5, 2
    finished.events.over[:] = True
    finished.teams.side[:] = 0, 1
    finished.finish()
    assert (finished.rows.rewards[0] == 0).all()


def test_the_defaults_are_the_rewards_that_the_configuration_names() -> None:
    assert RewardConfig().weights() == [1.0, 0.15, 0.15, 0, 0, 0, 0, 0]
    columns = {name: i for i, name in enumerate(("own", "mates", "foes", "eat", "die", "lead", "win", "zero_sum"))}
    assert {name: getattr(rewards, name.upper()) for name in columns} == columns
    assert RewardWeights._fields == tuple(columns)
