"""Sampling of batches: uniform, by number, with n-step returns. See test_returns.py for the same returns in torch.

Random numbers follow from SEED, which every test prints. Chi-squares are held against a value that a fair draw passes
once in a million times.
"""

import numpy as np
import pytest

from arena.rng import match_key
from arena.rules import TEAM
from marl.learners.replay_buffer import BatchRows, sample_transitions
from marl.rollout.turn_kernels import TurnRows

SEED = 20_240_611
RARE = 95.6  # of 39 degrees of freedom


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


class Sampled:
    """A ring in which every reward tells its turn, team and snake, and the batch that is sampled from it."""

    def __init__(
        self, turns: int, teams: int, written: int, n_step: int, gamma: float, batch: int, update: int = 0
    ) -> None:
        self.n_step, self.gamma = n_step, gamma
        rewards = np.zeros((turns, teams, TEAM), np.float32)
        for number in range(max(0, written - turns), written):  # numbers of turns; those overwritten are gone
            rewards[number % turns] = 1000 * number + 10 * np.arange(teams)[:, None] + np.arange(TEAM)
        actions = (np.arange(turns * teams * TEAM).reshape(turns, teams, TEAM) % 4).astype(np.int8)
        self.rows = TurnRows(np.array([written, update]), actions, rewards, np.zeros((turns, teams), bool))
        self.idx, self.next_idx = np.zeros((2, batch), np.int64)
        self.returns = np.full((batch, TEAM), np.nan, np.float32)
        self.discounts = np.full(batch, np.nan, np.float32)
        self.actions = np.full((batch, TEAM, 4), np.nan, np.float32)

    def draw(self, key: int = 77, update: int | None = None) -> "Sampled":
        if update is not None:
            self.rows.counts[1] = update
        batch = BatchRows(self.idx, self.next_idx, self.returns, self.discounts, self.actions)
        arguments = (key, self.rows, self.n_step, self.gamma, batch)
        sample_transitions.cpu_loop()(0, len(self.idx), arguments)
        return self

    def turn_numbers(self, idx: np.ndarray) -> np.ndarray:
        """The turns, of all ever written, at these indices: read from their rewards."""
        return self.rows.rewards.reshape(-1, TEAM)[idx, 0].astype(int) // 1000


@pytest.mark.parametrize("n_step", [1, 2, 5])
@pytest.mark.parametrize("written", [6, 7, 9, 10, 11, 12, 19, 20, 23, 1005])
def test_rows_begin_at_every_turn_whose_followers_are_held_and_at_no_other(written, n_step) -> None:
    sampled = Sampled(turns=10, teams=3, written=written, n_step=n_step, gamma=1.0, batch=3000).draw()
    assert set(sampled.turn_numbers(sampled.idx)) == set(range(max(0, written - 10), written - n_step))
    assert set(sampled.idx % 3) == {0, 1, 2}
    assert (sampled.idx % 3 == sampled.next_idx % 3).all(), "the row n turns later is of the same team"
    later = sampled.turn_numbers(sampled.next_idx)
    assert (later == sampled.turn_numbers(sampled.idx) + n_step).all(), (
        "the row n turns later is never across the write position"
    )


def test_the_fewest_turns_that_can_be_sampled_from() -> None:
    sampled = Sampled(turns=10, teams=3, written=4, n_step=3, gamma=1.0, batch=50).draw()
    assert set(sampled.turn_numbers(sampled.idx)) == {0}
    assert set(sampled.next_idx // 3) == {3}


@pytest.mark.parametrize("written", [9, 33])
def test_turns_and_teams_are_drawn_uniformly(written) -> None:
    turns, teams, n_step = 9, 5, 1
    counts = np.zeros((8, teams))
    sampled = Sampled(turns, teams, written, n_step, 1.0, batch=500)
    for update in range(80):
        sampled.draw(update=update)
        np.add.at(counts, (sampled.turn_numbers(sampled.idx) - max(0, written - turns), sampled.idx % teams), 1)
    assert chi_square(counts, np.full(counts.shape, counts.sum() / counts.size)) < RARE, counts


def test_a_row_depends_on_key_update_and_its_number_alone() -> None:
    few = Sampled(50, 7, 40, 3, 1.0, batch=5).draw(3, update=9)
    many = Sampled(50, 7, 40, 3, 1.0, batch=100).draw(3, update=9)
    assert (many.idx[:5] == few.idx).all()
    assert (many.idx != Sampled(50, 7, 40, 3, 1.0, batch=100).draw(3, update=10).idx).any()
    assert (many.idx != Sampled(50, 7, 40, 3, 1.0, batch=100).draw(4, update=9).idx).any()
    assert len(set(many.idx)) > 50, "rows of one batch are drawn one by one"


# Rewards 1, 2, 4, 8, ... at turns 0, 1, 2, 3, ...; gamma 0.5. Drawn from a buffer that allows the first turn only.
N_STEP = [  # n, turns at which a match ends, return from turn 0, discount of what follows
    (1, (), 1.0, 0.5),
    (1, (0,), 1.0, 0.0),
    (2, (), 1 + 1.0, 0.25),
    (3, (), 1 + 1 + 1.0, 0.125),
    (3, (0,), 1.0, 0.0),
    (3, (1,), 1 + 1.0, 0.0),
    (3, (2,), 1 + 1 + 1.0, 0.0),  # exactly at the n-th
    (3, (3,), 1 + 1 + 1.0, 0.125),  # after it: does not count
    (3, (0, 1), 1.0, 0.0),
    (3, (1, 2), 1 + 1.0, 0.0),
    (5, (3,), 1 + 1 + 1 + 1.0, 0.0),
    (5, (), 5.0, 0.03125),
]


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize(("n_step", "ends", "expected", "discount"), N_STEP)
def test_returns_worked_by_hand(n_step, ends, expected, discount, shift) -> None:
    """Also where the ring's end lies within the turns."""
    turns = n_step + 1
    sampled = Sampled(turns, 1, turns + shift, n_step, 0.5, batch=4)
    for turn in range(turns):
        at = (turn + shift) % turns
        sampled.rows.rewards[at, 0] = np.array([1, 10, -1]) * 2.0**turn
        sampled.rows.terminated[at, 0] = turn in ends
        sampled.rows.actions[at, 0] = 3, 0, 2
    sampled.draw()
    assert (sampled.idx == shift % turns).all()
    np.testing.assert_array_equal(sampled.returns, np.tile([expected, 10 * expected, -expected], (4, 1)))
    np.testing.assert_array_equal(sampled.discounts, np.full(4, discount))
    np.testing.assert_array_equal(sampled.actions, np.tile(np.eye(4)[[3, 0, 2]], (4, 1, 1)))


def test_rows_of_a_random_buffer_are_what_a_slow_look_says() -> None:
    generator = np.random.default_rng(SEED)
    sampled = Sampled(12, 4, 31, 3, 0.97, batch=200)
    sampled.rows.rewards[:] = generator.normal(0, 1, sampled.rows.rewards.shape)
    sampled.rows.terminated[:] = generator.random(sampled.rows.terminated.shape) < 0.2
    sampled.draw()
    for i in range(200):
        turn, team = divmod(sampled.idx[i], 4)
        total, discount = np.zeros(TEAM), 1.0
        for n in range(3):
            total += discount * sampled.rows.rewards[(turn + n) % 12, team]
            discount *= 0.97 * (not sampled.rows.terminated[(turn + n) % 12, team])
        np.testing.assert_allclose(sampled.returns[i], total, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(sampled.discounts[i], discount, rtol=1e-6)
        assert sampled.next_idx[i] == (turn + 3) % 12 * 4 + team
        np.testing.assert_array_equal(sampled.actions[i], np.eye(4)[sampled.rows.actions[turn, team]])


def test_batches_of_ranks_differ() -> None:
    keys = {int(match_key(1, (1 << 40) + rank)) for rank in range(64)}
    assert len(keys) == 64
    a, b = (Sampled(50, 7, 40, 3, 1.0, batch=100).draw(key) for key in sorted(keys)[:2])
    assert (a.idx != b.idx).mean() > 0.9
