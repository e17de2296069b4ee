"""Advantages and n-step returns: the compiled loops, the torch code of returns.py, and --no-fused are the same.

Random numbers follow from SEED, which every test prints.
"""

import numpy as np
import pytest
import torch
from helpers.collecting import CPU, a_buffer
from marl.learners.ppo_kernels import estimate_advantages

from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.learners.replay_buffer import BatchRows, sample_transitions
from marl.learners.returns import generalized_advantages, n_step_returns
from marl.learners.rollout_buffer import RolloutBuffer
from marl.rollout.turn_kernels import TurnRows

SEED = 404
# In double all ways of adding agree to the last bits but a few; in float32 torch rounds after every step.
TOLERANCE = {torch.float64: {"rtol": 1e-12, "atol": 1e-12}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
ENDS = [0.0, 0.2, 1.0]  # share of the turns at which a match ends

dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
ends = pytest.mark.parametrize("share", ENDS)


@pytest.fixture(autouse=True)
def seed_printed() -> None:
    print(f"seed {SEED}")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)


@ends
@dtypes
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (0.9, 0.0), (1.0, 1.0)])
def test_advantages(generator, dtype, share, gamma, gae_lambda) -> None:
    turns, teams = 23, 7
    rewards = torch.randn(turns, teams, TEAM, generator=generator, dtype=dtype)
    values = torch.randn(turns + 1, teams, TEAM, generator=generator, dtype=dtype)
    terminated = torch.rand(turns, teams, generator=generator) < share
    advantages, returns = torch.full((2, *rewards.shape), torch.nan, dtype=dtype)
    loop = estimate_advantages.bind(
        teams * TEAM, CPU, rewards, terminated, values, gamma, gae_lambda, advantages, returns
    )
    loop()
    expected = generalized_advantages(rewards, terminated, values, gamma, gae_lambda)
    torch.testing.assert_close(advantages, expected[0], **TOLERANCE[dtype])
    torch.testing.assert_close(returns, expected[1], **TOLERANCE[dtype])


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
@dtypes
@pytest.mark.parametrize("n_step", [1, 3, 6])
def test_n_step_returns(generator, dtype, share, n_step) -> None:
    """A full ring, so that some of the n turns lie across its end."""
    turns, teams, count, gamma = 10, 4, 200, 0.97
    rewards = torch.randn(turns, teams, TEAM, generator=generator, dtype=dtype)
    terminated = torch.rand(turns, teams, generator=generator) < share
    actions = torch.randint(0, 4, (turns, teams, TEAM), generator=generator).to(torch.int8)
    rows = TurnRows(torch.tensor([turns + 4, 5]), actions, rewards, terminated)
    batch = BatchRows(
        torch.full((count,), -1),
        torch.full((count,), -1),
        torch.full((count, TEAM), torch.nan, dtype=dtype),
        torch.full((count,), torch.nan, dtype=dtype),
        torch.zeros(count, TEAM, 4),
    )
    sample_transitions.bind(count, CPU, 99, rows, n_step, gamma, batch)()
    turn, team = batch.idx // teams, batch.idx % teams
    following = (turn + torch.arange(n_step)[:, None]) % turns
    returns, discounts = n_step_returns(rewards[following, team], terminated[following, team], gamma)
    torch.testing.assert_close(batch.returns, returns, **TOLERANCE[torch.float32])  # always added up in float32
    torch.testing.assert_close(batch.discounts, discounts, **TOLERANCE[dtype])
    assert torch.equal(batch.next_idx, (turn + n_step) % turns * teams + team)
    assert torch.equal(batch.discounts == 0, discounts == 0)
    if share == 0.2:
        assert 0 < (discounts == 0).float().mean() < 1, "some of the matches should end within n turns"
        assert (following[-1] < turn).any() or n_step == 1, "some of the turns should lie across the ring's end"


def test_without_fused_loops_a_rollout_buffer_computes_the_same_advantages() -> None:
    found = []
    for fused in (True, False):
        buffer = RolloutBuffer(9, 4, encoder_named("features"), CPU, key=1)
        same = torch.Generator().manual_seed(SEED)
        buffer.rewards.normal_(generator=same)
        buffer.values.normal_(generator=same)
        buffer.terminated.bernoulli_(0.3, generator=same)
        buffer.estimator(0.97, 0.9, fused)()
        found.append((buffer.advantages, buffer.returns))
    assert found[0][0].any()
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_step", [1, 4])
def test_without_fused_loops_a_replay_buffer_samples_the_same_batches(n_step) -> None:
    batches = []
    for fused in (True, False):
        buffer = a_buffer(12, 4)
        random = np.random.default_rng(SEED)
        for name in ("obs", "actions", "rewards"):
            tensor = getattr(buffer, name)
            tensor.copy_(torch.from_numpy(random.integers(0, 4, tuple(tensor.shape))))
        buffer.terminated.copy_(torch.from_numpy(random.random((12, 4)) < 0.2))
        buffer.counts[0] = 30
        sampler = buffer.sampler(64, n_step, 0.9, fused)
        sampler.draw()
        batches.append(sampler.draw())
    fused, plain = batches
    for name in ("idx", "next_idx", "actions"):
        assert torch.equal(getattr(fused.rows, name), getattr(plain.rows, name)), name
    for name in ("returns", "discounts"):
        torch.testing.assert_close(getattr(fused.rows, name), getattr(plain.rows, name), rtol=1e-6, atol=1e-6)
    assert torch.equal(fused.obs, plain.obs)
    assert torch.equal(fused.next_obs, plain.next_obs)
