"""PPO's formulas: worked by hand, and the compiled gradient against autograd's of the loss in ppo_loss.py."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from marl.learners.ppo_kernels import (
    CLIPPED,
    ENTROPY,
    KL,
    POLICY_LOSS,
    STATS,
    VALUE_LOSS,
    Coefs,
    Minibatch,
    Targets,
    estimate_advantages,
    log_softmax_at,
    loss_gradients,
    shuffle_items,
)

from arena.rng import match_key
from marl.learners.ppo_loss import PpoBatch, ppo_loss
from marl.rollout.turn_kernels import NONE

SEED = 20
TEAM, OUTPUTS = 3, 5


@pytest.fixture(autouse=True)
def seed_printed() -> None:
    print(f"seed {SEED}")


# --- advantages


def advantages(rewards, terminated, values, gamma, gae_lambda):
    """Of one team whose three snakes see the same."""
    rewards, values = (np.repeat(np.array(x, np.float32)[:, None, None], TEAM, 2) for x in (rewards, values))
    found, returns = np.zeros_like(rewards), np.zeros_like(rewards)
    given = (rewards, np.array(terminated)[:, None], values, gamma, gae_lambda, found, returns)
    estimate_advantages.cpu_loop()(0, TEAM, given)
    assert np.allclose(returns, found + values[:-1], atol=1e-6)
    return found[:, 0, 0].tolist()


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
    assert advantages(rewards, terminated, values, gamma, gae_lambda) == pytest.approx(expected)


# --- the loss


class MadeUpMinibatch:
    """Rows of a made-up rollout of T turns of G teams, and the gradient of the loss there.

    Actions are masked nowhere, for every snake, or for some of them.
    """

    def __init__(self, rows: int = 40, turns: int = 5, teams: int = 8, masked: str = "all", seed: int = SEED) -> None:
        random = np.random.default_rng(seed)
        shape = (turns, teams, TEAM)
        self.idx = random.permutation(turns * teams)[:rows].astype(np.int64)
        self.outputs = random.normal(size=(rows, TEAM, OUTPUTS)).astype(np.float32)
        actions = random.integers(0, 4, shape).astype(np.int8)
        others = (actions + random.integers(1, 4, shape)) % 4  # the action that was played is never masked
        share = {"none": 0.0, "some": 0.5, "all": 1.0}[masked]
        where = random.random(shape) < share
        values = random.normal(size=(turns + 1, teams, TEAM)).astype(np.float32)
        advantages, returns = random.normal(size=(2, *shape)).astype(np.float32)
        self.targets = Targets(
            actions,
            np.where(where, others, NONE).astype(np.int8),
            np.zeros(shape, np.float32),
            values,
            advantages,
            returns,
        )
        self.adv_stats = np.array([0.2, 1.7], np.float32)
        # Not far from what the outputs say now: some ratios are clipped, some are not.
        for row, k, at in self.snakes():
            now = log_softmax_at(self.outputs[row, k], self.targets.masked[at], self.targets.actions[at])
            self.targets.log_probs[at] = now + random.normal() * 0.2

    def snakes(self) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
        """Row of the minibatch, snake, and its place in the rollout (turn, team, snake)."""
        for row, idx in enumerate(self.idx):
            for k in range(TEAM):
                yield row, k, (*divmod(int(idx), self.targets.actions.shape[1]), k)

    def coefs(self, clip=0.2, value_clip=0.0, value_weight=0.5, entropy=0.03, uniform_kl=0.0) -> Coefs:
        regularisers = np.array([entropy, uniform_kl], np.float32)
        return Coefs(self.adv_stats, regularisers, clip, value_clip, value_weight)

    def gradient(self, **options) -> tuple[np.ndarray, np.ndarray]:
        """Gradients [M, 3, 5] and statistics [M * 3, 5] of the compiled loop."""
        rows = len(self.idx)
        batch = Minibatch(
            self.idx,
            self.outputs,
            np.full(self.outputs.shape, np.nan, np.float32),
            np.full((rows * TEAM, STATS), np.nan, np.float32),
        )
        loss_gradients.cpu_loop()(0, rows * TEAM, (batch, self.targets, self.coefs(**options)))
        return batch.gradients, batch.stats

    def torch_batch(self) -> PpoBatch:
        """The targets of the minibatch's rows, as the learner gathers them for ppo_loss."""
        turns = len(self.targets.actions)
        idx = torch.from_numpy(self.idx)
        return PpoBatch(*(torch.from_numpy(array)[:turns].flatten(0, 1)[idx] for array in self.targets))

    def by_autograd(self, **options) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of ppo_loss by the outputs, and its statistics: means over the minibatch."""
        coefs = converted_to_torch(self.coefs(**options))
        outputs = torch.from_numpy(self.outputs.copy()).requires_grad_()
        loss, stats = ppo_loss(outputs, self.torch_batch(), coefs)
        loss.backward()
        return outputs.grad.numpy(), stats.numpy()

    def stats_of_each(self, **options) -> np.ndarray:
        """Statistics [M * 3, 5] of ppo_loss, computed snake by snake."""
        coefs, batch = converted_to_torch(self.coefs(**options)), self.torch_batch()
        outputs, found = torch.from_numpy(self.outputs), []
        for row, k, _ in self.snakes():
            one = (slice(row, row + 1), slice(k, k + 1))
            found.append(ppo_loss(outputs[one], PpoBatch(*(tensor[one] for tensor in batch)), coefs)[1])
        return torch.stack(found).numpy()


def converted_to_torch(coefs: Coefs) -> Coefs:
    tensors = (torch.from_numpy(coefs.adv_stats), torch.from_numpy(coefs.regularisers))
    return Coefs(*tensors, *coefs[2:])


OPTIONS = [
    {},
    {"clip": 0.05},
    {"entropy": 0.0, "value_weight": 2.0},
    {"value_clip": 0.3},
    {"clip": 1e9, "entropy": 1.0},
    {"uniform_kl": 0.7},
    {"entropy": 0.0, "uniform_kl": 0.0, "value_weight": 0.0},
    {"clip": 0.1, "value_clip": 0.5, "value_weight": 1.5, "entropy": 0.2, "uniform_kl": 0.4},
]


@pytest.mark.parametrize("masked", ["none", "some", "all"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_compiled_gradient_is_that_of_the_loss_in_torch(options, masked) -> None:
    batch = MadeUpMinibatch(masked=masked)
    found, stats = batch.gradient(**options)
    expected, means = batch.by_autograd(**options)
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max(), f"seed {SEED}"
    np.testing.assert_allclose(stats.mean(0), means, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(stats, batch.stats_of_each(**options), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("masked", ["none", "some", "all"])
def test_the_made_up_minibatch_has_every_case_of_the_loss(masked) -> None:
    """Ratios clipped on both sides and for both signs of the advantage, values clipped and not, masks as named."""
    batch = MadeUpMinibatch(masked=masked)
    ratios, advantages, moved = [], [], []
    for row, k, at in batch.snakes():
        log_prob = log_softmax_at(batch.outputs[row, k], batch.targets.masked[at], batch.targets.actions[at])
        ratios.append(np.exp(log_prob - batch.targets.log_probs[at]))
        advantages.append((batch.targets.advantages[at] - batch.adv_stats[0]) * batch.adv_stats[1])
        moved.append(batch.outputs[row, k, 4] - batch.targets.values[at])
    ratios, advantages, moved = np.array(ratios), np.array(advantages), np.array(moved)
    for outside in (ratios > 1.2, ratios < 0.8):
        assert (outside & (advantages > 0)).sum() >= 3
        assert (outside & (advantages < 0)).sum() >= 3
    assert 20 < (np.abs(ratios - 1) < 0.2).sum() < 110
    assert 5 < (np.abs(moved) > 0.3).sum() < 115
    share = (batch.targets.masked != NONE).mean()
    assert {"none": share == 0, "some": 0.3 < share < 0.7, "all": share == 1}[masked]


def one(ratio=1.0, advantage=1.0, value=0.0, returns=0.0, old_value=0.0, logits=(0.0, 0.0, 0.0, 0.0), **options):
    """Gradient and statistics of a single snake that played action 2; ratio: of its probability now to that before."""
    batch = MadeUpMinibatch(rows=1, turns=1, teams=1, masked="none")
    targets = batch.targets
    batch.outputs[..., :4] = logits
    batch.outputs[..., 4] = value
    targets.actions[:] = 2
    targets.log_probs[:] = math.log(0.25) - math.log(ratio)
    targets.advantages[:], targets.returns[:], targets.values[:] = advantage, returns, old_value
    batch.adv_stats[:] = 0, 1
    gradients, stats = batch.gradient(**({"entropy": 0.0} | options))
    return gradients[0, 0] * TEAM, stats[0]  # of one snake of three


def test_a_good_action_is_pulled_up_and_a_bad_one_down() -> None:
    # - A (1 - prob) for the action, + A prob for the others; probs are 1/4.
    assert one(advantage=2.0)[0][:4] == pytest.approx([0.5, 0.5, -1.5, 0.5])
    assert one(advantage=-2.0)[0][:4] == pytest.approx([-0.5, -0.5, 1.5, -0.5])


@pytest.mark.parametrize(
    ("ratio", "advantage", "has_gradient", "loss"),
    [
        (1.3, 1.0, False, -1.2),  # good, and already likelier by more than it may
        (1.3, -1.0, True, 1.3),  # bad, and likelier: it must come back
        (0.7, -1.0, False, 0.8),  # bad, and already rarer by more than it may
        (0.7, 1.0, True, -0.7),  # good, and rarer: it must come back
        (1.1, 1.0, True, -1.1),
        (0.9, -1.0, True, 0.9),
    ],
)
def test_clipping_worked_by_hand(ratio, advantage, has_gradient, loss) -> None:
    gradient, stats = one(ratio, advantage)
    assert stats[POLICY_LOSS] == pytest.approx(loss, abs=1e-5)
    assert gradient[2] == pytest.approx(-ratio * advantage * 0.75 if has_gradient else 0.0, abs=1e-5)
    assert stats[CLIPPED] == (abs(ratio - 1) > 0.2)


def test_kl_is_zero_for_the_same_policy_and_grows_both_ways() -> None:
    assert one(1.0)[1][KL] == pytest.approx(0, abs=1e-7)
    assert one(1.5)[1][KL] == pytest.approx(0.5 - math.log(1.5), abs=1e-5)
    assert one(0.5)[1][KL] == pytest.approx(-0.5 - math.log(0.5), abs=1e-5)


def test_entropy_of_equal_probs_is_the_highest_and_has_no_gradient() -> None:
    gradient, stats = one(advantage=0.0, entropy=1.0)
    assert stats[ENTROPY] == pytest.approx(math.log(4))
    assert gradient[:4] == pytest.approx([0, 0, 0, 0], abs=1e-6)


def test_an_action_nearly_given_up_is_pulled_back_by_uniform_kl_and_not_by_entropy() -> None:
    logits = [0.0, 0.0, 0.0, -12.0]
    by_entropy, _ = one(advantage=0.0, entropy=1.0, logits=logits)
    by_uniform_kl, _ = one(advantage=0.0, uniform_kl=1.0, logits=logits)
    assert abs(by_entropy[3]) < 1e-4
    assert by_uniform_kl[:4] == pytest.approx([1 / 3 - 1 / 4] * 3 + [-1 / 4], abs=1e-4)


@pytest.mark.parametrize(
    ("value", "old_value", "clip", "gradient", "loss"),
    [
        (3.0, 0.0, 0.0, 1.0, 2.0),  # (3 - 1), weight 1/2
        (3.0, 0.0, 0.5, 1.0, 2.0),  # moved too far, but away from the truth: it must come back
        (0.9, 0.0, 0.5, 0.0, 0.125),  # moved too far towards the truth: left alone, judged by 0.5
        (0.3, 0.0, 0.5, -0.35, 0.245),
    ],
)
def test_the_value_worked_by_hand(value, old_value, clip, gradient, loss) -> None:
    """The return is 1."""
    found, stats = one(advantage=0.0, value=value, returns=1.0, old_value=old_value, value_clip=clip)
    assert found[4] == pytest.approx(gradient, abs=1e-6)
    assert stats[VALUE_LOSS] == pytest.approx(loss, abs=1e-6)


def test_a_masked_action_has_no_gradient_and_no_probability() -> None:
    batch = MadeUpMinibatch(masked="all")
    gradients, _ = batch.gradient()
    for row, k, at in batch.snakes():
        assert gradients[row, k, batch.targets.masked[at]] == 0
    probs = [math.exp(log_softmax_at(np.zeros(4), 1, action)) for action in (0, 2, 3)]
    assert probs == pytest.approx([1 / 3] * 3)


# --- shuffling


def order(items: int, key: int, number: int) -> list[int]:
    found, counts = np.full(items, -1), np.array([0, number])
    shuffle_items.cpu_loop()(0, items, (key, counts, found))
    return found.tolist()


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4096, 5000])
def test_every_item_comes_once(items) -> None:
    assert sorted(order(items, int(match_key(SEED, items)), 3)) == list(range(items))


def test_orders_differ_by_epoch_and_by_rank_and_by_nothing_else() -> None:
    first = order(500, int(match_key(SEED, 1)), 0)
    assert first == order(500, int(match_key(SEED, 1)), 0)
    assert first != order(500, int(match_key(SEED, 1)), 1)
    assert first != order(500, int(match_key(SEED, 2)), 0)


def test_every_place_is_as_likely_for_every_item() -> None:
    items, orders = 12, 6000
    seen = np.zeros((items, items))
    for number in range(orders):
        seen[range(items), order(items, int(match_key(SEED, 7)), number)] += 1
    chi = ((seen - orders / items) ** 2 / (orders / items)).sum()
    assert chi < 220, "121 degrees of freedom: beyond it once in ten million times"
