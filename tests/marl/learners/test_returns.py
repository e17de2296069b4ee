"""Advantages worked by hand, by the sums of their definition and by loops; what they are normalised by; n-step returns
by loops over numbers.

Random numbers follow from SEED, which every test prints.
"""

import pytest
import torch
from helpers.collecting import CPU
from helpers.ppo_rounds import a_ppo, begin, play

from arena.rules import TEAM
from marl.learners.replay_buffer import BatchRows, sample_transitions
from marl.learners.returns import generalized_advantages, moments
from marl.rollout.turn_kernels import TurnRows

SEED = 404
ENDS = [0.0, 0.2, 1.0]  # share of the turns at which a match ends
ends = pytest.mark.parametrize("share", ENDS)


@pytest.fixture(autouse=True)
def seed_printed() -> None:
    print(f"seed {SEED}")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)


# --- advantages

NO = [False, False, False]


@pytest.mark.parametrize(
    ("rewards", "terminated", "values", "gamma", "gae_lambda", "expected"),
    [
        # One turn ahead: reward + gamma * next value - value.
        ([1, 2, 3], NO, [10, 20, 30, 40], 0.5, 0.0, [1, -3, -7]),
        # To the end: discounted rewards and the value after it all, less the value.
        ([1, 2, 3], NO, [0, 0, 0, 8], 0.5, 1.0, [1 + 1 + 0.75 + 1, 2 + 1.5 + 2, 3 + 4]),
        # In between: deltas 1, -3, -7, each later one counts gamma * lambda = 1/4.
        ([1, 2, 3], NO, [10, 20, 30, 40], 0.5, 0.5, [1 + (-3 - 7 / 4) / 4, -3 - 7 / 4, -7]),
        # A match that ends leads nowhere: what comes after belongs to another one.
        ([1, 2, 3], [False, True, False], [10, 20, 30, 40], 0.5, 0.5, [1 - 18 / 4, -18, -7]),
        ([1, 2, 3], [True, True, True], [10, 20, 30, 40], 0.5, 1.0, [-9, -18, -27]),
        ([1, 1, 1], NO, [0, 0, 0, 0], 1.0, 1.0, [3, 2, 1]),
    ],
)
def test_advantages_worked_by_hand(rewards, terminated, values, gamma, gae_lambda, expected) -> None:
    """Of one team whose three snakes see the same."""
    rewards, values = (
        torch.tensor(x, dtype=torch.float32)[:, None, None].expand(-1, 1, TEAM) for x in (rewards, values)
    )
    found, returns = generalized_advantages(rewards, torch.tensor(terminated)[:, None], values, gamma, gae_lambda)
    assert found[:, 0, 0].tolist() == pytest.approx(expected)
    torch.testing.assert_close(returns, found + values[:-1])


def test_advantages_by_the_sums_of_their_definition(generator) -> None:
    """A_t = sum of (gamma lambda)^n delta_{t+n} up to the end of the match, without a recursion."""
    turns, gamma, gae_lambda = 12, 0.9, 0.8
    rewards = torch.randn(turns, 1, TEAM, generator=generator, dtype=torch.float64)
    values = torch.randn(turns + 1, 1, TEAM, generator=generator, dtype=torch.float64)
    terminated = torch.zeros(turns, 1, dtype=torch.bool)
    terminated[[4, 9]] = True
    advantages, returns = generalized_advantages(rewards, terminated, values, gamma, gae_lambda)
    for t in range(turns):
        last = next((end for end in (4, 9) if end >= t), turns - 1)
        expected = torch.zeros(1, TEAM, dtype=torch.float64)
        for n in range(t, last + 1):
            next_value = 0 if terminated[n] else values[n + 1]
            expected += (gamma * gae_lambda) ** (n - t) * (rewards[n] + gamma * next_value - values[n])
        torch.testing.assert_close(advantages[t], expected)
        torch.testing.assert_close(returns[t], expected + values[t])


@ends
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (0.9, 0.0), (1.0, 1.0)])
def test_advantages_by_a_loop_over_snakes(generator, share, gamma, gae_lambda) -> None:
    turns, teams = 23, 7
    rewards = torch.randn(turns, teams, TEAM, generator=generator)
    values = torch.randn(turns + 1, teams, TEAM, generator=generator)
    terminated = torch.rand(turns, teams, generator=generator) < share
    advantages, returns = generalized_advantages(rewards, terminated, values, gamma, gae_lambda)
    for team in range(teams):
        for snake in range(TEAM):
            gae = 0.0
            for t in reversed(range(turns)):
                goes_on = 0.0 if terminated[t, team] else 1.0
                value, next_value = values[t, team, snake].item(), values[t + 1, team, snake].item()
                delta = rewards[t, team, snake].item() + gamma * goes_on * next_value - value
                gae = delta + gamma * gae_lambda * goes_on * gae
                assert advantages[t, team, snake].item() == pytest.approx(gae, rel=1e-4, abs=1e-4)
                assert returns[t, team, snake].item() == pytest.approx(gae + value, rel=1e-4, abs=1e-4)


def test_moments_give_mean_and_deviation(generator) -> None:
    values = 3 + 2 * torch.randn(5, 4, TEAM, generator=generator, dtype=torch.float64)
    total, squares, count = moments(values)
    assert count == values.numel()
    torch.testing.assert_close(total / count, values.mean())
    torch.testing.assert_close((squares / count - (total / count) ** 2).sqrt(), values.std(correction=0))


@pytest.mark.parametrize("paid", ["as it is", "always the same"])
def test_a_learner_normalises_advantages_and_leaves_returns_alone(paid) -> None:
    learner, rollout = a_ppo(8, 10, seed=SEED, spread=0.2)
    begin(rollout)
    play(learner, rollout)
    buffer, config = learner.buffer, learner.config
    if paid == "always the same":  # nothing to tell apart
        buffer.rewards.zero_()
        buffer.values.zero_()
        learner.last_values = lambda: torch.zeros(buffer.teams * TEAM)
    learner._estimate_advantages()
    plain, returns = generalized_advantages(
        buffer.rewards, buffer.terminated, buffer.values, config.gamma, config.gae_lambda
    )
    assert torch.equal(buffer.returns, returns)
    deviation = plain.double().std(correction=0).clamp(min=1e-8)
    expected = (plain - plain.double().mean()) / deviation
    torch.testing.assert_close(buffer.advantages, expected.float(), rtol=1e-4, atol=1e-5)
    assert buffer.advantages.any() == (paid == "as it is")


# --- n-step returns


@ends
@pytest.mark.parametrize("n_step", [1, 3, 6])
def test_n_step_returns_by_a_loop(generator, share, n_step) -> None:
    """A full ring, so that some of the n turns lie across its end."""
    turns, teams, count, gamma = 10, 4, 200, 0.97
    rewards = torch.randn(turns, teams, TEAM, generator=generator)
    terminated = torch.rand(turns, teams, generator=generator) < share
    actions = torch.randint(0, 4, (turns, teams, TEAM), generator=generator).to(torch.int8)
    rows = TurnRows(torch.tensor([turns + 4, 5]), actions, rewards, terminated)
    batch = BatchRows(
        torch.full((count,), -1),
        torch.full((count,), -1),
        torch.full((count, TEAM), torch.nan),
        torch.full((count,), torch.nan),
        torch.zeros(count, TEAM, 4),
    )
    sample_transitions.bind(count, CPU, 99, rows, n_step, gamma, batch)()
    ended = across = 0
    for i in range(count):
        turn, team = divmod(int(batch.idx[i]), teams)
        total, discount = torch.zeros(TEAM, dtype=torch.float64), 1.0
        for n in range(n_step):
            at = (turn + n) % turns
            total += discount * rewards[at, team].double()
            discount *= 0.0 if terminated[at, team] else gamma
        across += turn + n_step > turns
        ended += discount == 0
        torch.testing.assert_close(batch.returns[i].double(), total, rtol=1e-5, atol=1e-5)
        assert batch.discounts[i].item() == pytest.approx(discount, rel=1e-5)
        assert int(batch.next_idx[i]) == (turn + n_step) % turns * teams + team
    if share == 0.2:
        assert 0 < ended < count, "some of the matches should end within n turns"
        assert across or n_step == 1, "some of the turns should lie across the ring's end"
