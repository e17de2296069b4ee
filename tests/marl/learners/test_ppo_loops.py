"""PPO's formulas: worked by hand, and against torch's own gradients."""

import math

import numpy as np
import pytest
import torch
from marl.rollout.ppo_loops import CLIPPED, ENTROPY, KL, POLICY, VALUE

from arena.rng import match_key
from marl.rollout import ppo_loops

SEED = 20
TEAM, ANSWERS = 3, 5


@pytest.fixture(autouse=True)
def told() -> None:
    print(f"seed {SEED}")


# --- advantages


def advantages(rewards, over, values, gamma, decay):
    """Of one team whose three snakes see the same."""
    rewards, values = (np.repeat(np.array(x, np.float32)[:, None, None], TEAM, 2) for x in (rewards, values))
    found, returns = np.zeros_like(rewards), np.zeros_like(rewards)
    ended = np.array(over)[:, None]
    ppo_loops.advantages_all(rewards, ended, values, gamma, decay, found, returns)
    assert np.allclose(returns, found + values[:-1], atol=1e-6)
    return found[:, 0, 0].tolist()


NO = [False, False, False]


@pytest.mark.parametrize(
    ("rewards", "over", "values", "gamma", "decay", "expected"),
    [
        # One turn ahead: reward + gamma * next value - value.
        ([1, 2, 3], NO, [10, 20, 30, 40], 0.5, 0.0, [1, -3, -7]),
        # To the end: discounted rewards and the value after it all, less the value.
        ([1, 2, 3], NO, [0, 0, 0, 8], 0.5, 1.0, [1 + 1 + 0.75 + 1, 2 + 1.5 + 2, 3 + 4]),
        # In between: surprises 1, -3, -7, each later one counts gamma * decay = 1/4.
        ([1, 2, 3], NO, [10, 20, 30, 40], 0.5, 0.5, [1 + (-3 - 7 / 4) / 4, -3 - 7 / 4, -7]),
        # A match that ends leads nowhere: what comes after belongs to another one.
        ([1, 2, 3], [False, True, False], [10, 20, 30, 40], 0.5, 0.5, [1 - 18 / 4, -18, -7]),
        ([1, 2, 3], [True, True, True], [10, 20, 30, 40], 0.5, 1.0, [-9, -18, -27]),
        ([1, 1, 1], NO, [0, 0, 0, 0], 1.0, 1.0, [3, 2, 1]),
    ],
)
def test_advantages_worked_by_hand(rewards, over, values, gamma, decay, expected) -> None:
    assert advantages(rewards, over, values, gamma, decay) == pytest.approx(expected)


# --- the loss


class Batch:
    """Rows of a made-up round of T turns of G teams, and the gradient of the loss there."""

    def __init__(self, rows: int = 40, turns: int = 5, teams: int = 8, barred: bool = True, seed: int = SEED) -> None:
        random = np.random.default_rng(seed)
        shape = (turns, teams, TEAM)
        self.here = random.permutation(turns * teams)[:rows].astype(np.int64)
        self.answers = random.normal(size=(rows, TEAM, ANSWERS)).astype(np.float32)
        self.moves = random.integers(0, 4, shape).astype(np.int8)
        self.masked = np.full(shape, -1, np.int8)
        if barred:
            self.masked[:] = (self.moves + random.integers(1, 4, shape)) % 4
        self.values = random.normal(size=(turns + 1, teams, TEAM)).astype(np.float32)
        self.advantages, self.returns = random.normal(size=(2, *shape)).astype(np.float32)
        self.moments = np.array([0.2, 1.7], np.float32)
        # Not far from what is answered now: some ratios are clipped, some are not.
        self.log_probs = np.zeros(shape, np.float32)
        for row, k, t, g in self.snakes():
            now = ppo_loops.log_softmax_at(self.answers[row, k], self.masked[t, g, k], self.moves[t, g, k])
            self.log_probs[t, g, k] = now + random.normal() * 0.2

    def snakes(self):
        for row, at in enumerate(self.here):
            for k in range(TEAM):
                yield row, k, at // self.moves.shape[1], at % self.moves.shape[1]

    def gradient(self, clip=0.2, value_clip=0.0, value_weight=0.5, entropy=0.03, even=0.0):
        gradients = np.full(self.answers.shape, np.nan, np.float32)
        numbers = np.full((self.answers.shape[0] * TEAM, 5), np.nan, np.float32)
        ppo_loops.gradients_all(
            self.here, self.answers, self.moves, self.masked, self.log_probs, self.values, self.advantages,
            self.returns, self.moments, np.array([entropy, even], np.float32), clip, value_clip, value_weight,
            gradients, numbers,
        )  # fmt: skip
        return gradients, numbers

    def by_torch(self, clip=0.2, value_clip=0.0, value_weight=0.5, entropy=0.03, even=0.0):
        """The loss as it is written in papers, and torch's gradient of it."""
        rows, turn = torch.from_numpy(self.here), self.moves.shape[1]

        def of(array):
            return torch.from_numpy(array)[: self.moves.shape[0]].flatten(0, 1)[rows].double()

        answers = torch.from_numpy(self.answers).double().requires_grad_()
        logits, values = answers[..., :4], answers[..., 4]
        masked = logits.masked_fill(torch.arange(4) == of(self.masked)[..., None], -math.inf)
        log_chances = masked.log_softmax(-1)
        chances = log_chances.exp()
        spread = -(chances * log_chances.masked_fill(chances == 0, 0)).sum(-1)
        moved = log_chances.gather(-1, of(self.moves).long()[..., None])[..., 0] - of(self.log_probs)
        ratio = moved.exp()
        gain = (of(self.advantages) - self.moments[0].item()) * self.moments[1].item()
        policy = -torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)
        wrong = (values - of(self.returns)).square()
        if value_clip:
            old = of(self.values)
            near = old + (values - old).clamp(-value_clip, value_clip)
            wrong = torch.maximum(wrong, (near - of(self.returns)).square())
        legal = chances > 0
        evenness = (log_chances.masked_fill(~legal, 0).sum(-1) / legal.sum(-1)).float()
        loss = policy + value_weight * wrong / 2 - entropy * spread - even * evenness
        loss.mean().backward()
        assert turn
        clipped = ((ratio - 1).abs() > clip).double()
        return answers.grad, torch.stack((policy, wrong / 2, spread, ratio - 1 - moved, clipped), -1).flatten(0, 1)


@pytest.mark.parametrize("barred", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip": 0.05},
        {"entropy": 0.0, "value_weight": 2.0},
        {"value_clip": 0.3},
        {"clip": 1e9, "entropy": 1.0},
        {"even": 0.7},
    ],
)
def test_the_gradient_is_torchs_own(options, barred) -> None:
    batch = Batch(barred=barred)
    found, numbers = batch.gradient(**options)
    expected, told = batch.by_torch(**options)
    assert np.allclose(found, expected.numpy(), atol=1e-6)
    assert np.allclose(numbers, told.detach().numpy(), atol=1e-4)


def one(ratio=1.0, gain=1.0, value=0.0, returns=0.0, old=0.0, logits=(0.0, 0.0, 0.0, 0.0), **options):
    """Gradient and numbers of a single snake, its logits equal if not given, whose move was likelier or not when it was
    played."""
    batch = Batch(rows=1, turns=1, teams=1, barred=False)
    batch.answers[..., :4] = logits
    batch.answers[..., 4] = value
    batch.rows.actions[:] = 2
    batch.log_probs[:] = math.log(0.25) - math.log(ratio)
    batch.advantages[:], batch.rows.returns[:], batch.values[:] = gain, returns, old
    batch.moments[:] = 0, 1
    gradients, numbers = batch.gradient(**({"entropy": 0.0} | options))
    return gradients[0, 0] * TEAM, numbers[0]  # of one snake of three


def test_a_good_move_is_pulled_up_and_a_bad_one_down() -> None:
    # - A (1 - chance) for the move, + A chance for the others; chances are 1/4.
    assert one(gain=2.0)[0][:4] == pytest.approx([0.5, 0.5, -1.5, 0.5])
    assert one(gain=-2.0)[0][:4] == pytest.approx([-0.5, -0.5, 1.5, -0.5])


@pytest.mark.parametrize(
    ("ratio", "gain", "moves_on", "loss"),
    [
        (1.3, 1.0, False, -1.2),  # good, and already likelier by more than it may
        (1.3, -1.0, True, 1.3),  # bad, and likelier: it must come back
        (0.7, -1.0, False, 0.8),  # bad, and already rarer by more than it may
        (0.7, 1.0, True, -0.7),  # good, and rarer: it must come back
        (1.1, 1.0, True, -1.1),
        (0.9, -1.0, True, 0.9),
    ],
)
def test_clipping_worked_by_hand(ratio, gain, moves_on, loss) -> None:
    gradient, numbers = one(ratio, gain)
    assert numbers[POLICY] == pytest.approx(loss, abs=1e-5)
    assert gradient[2] == pytest.approx(-ratio * gain * 0.75 if moves_on else 0.0, abs=1e-5)
    assert numbers[CLIPPED] == (abs(ratio - 1) > 0.2)


def test_kl_is_zero_for_the_same_policy_and_grows_both_ways() -> None:
    assert one(1.0)[1][KL] == pytest.approx(0, abs=1e-7)
    assert one(1.5)[1][KL] == pytest.approx(0.5 - math.log(1.5), abs=1e-5)
    assert one(0.5)[1][KL] == pytest.approx(-0.5 - math.log(0.5), abs=1e-5)


def test_entropy_of_equal_chances_is_the_highest_and_has_no_pull() -> None:
    gradient, numbers = one(gain=0.0, entropy=1.0)
    assert numbers[ENTROPY] == pytest.approx(math.log(4))
    assert gradient[:4] == pytest.approx([0, 0, 0, 0], abs=1e-6)


def test_a_move_nearly_given_up_is_pulled_back_by_evenness_and_not_by_entropy() -> None:
    logits = [0.0, 0.0, 0.0, -12.0]
    by_entropy, _ = one(gain=0.0, entropy=1.0, logits=logits)
    by_evenness, _ = one(gain=0.0, even=1.0, logits=logits)
    assert abs(by_entropy[3]) < 1e-4
    assert by_evenness[:4] == pytest.approx([1 / 3 - 1 / 4] * 3 + [-1 / 4], abs=1e-4)


@pytest.mark.parametrize(
    ("value", "old", "clip", "gradient", "loss"),
    [
        (3.0, 0.0, 0.0, 1.0, 2.0),  # (3 - 1), weight 1/2
        (3.0, 0.0, 0.5, 1.0, 2.0),  # moved too far, but away from the truth: it must come back
        (0.9, 0.0, 0.5, 0.0, 0.125),  # moved too far towards the truth: left alone, judged by 0.5
        (0.3, 0.0, 0.5, -0.35, 0.245),
    ],
)
def test_the_value_worked_by_hand(value, old, clip, gradient, loss) -> None:
    """The return is 1."""
    found, numbers = one(gain=0.0, value=value, returns=1.0, old=old, value_clip=clip)
    assert found[4] == pytest.approx(gradient, abs=1e-6)
    assert numbers[VALUE] == pytest.approx(loss, abs=1e-6)


def test_a_barred_move_is_not_pulled_and_takes_no_chance() -> None:
    batch = Batch(barred=True)
    gradients, _ = batch.gradient()
    for row, k, t, g in batch.snakes():
        assert gradients[row, k, batch.masked[t, g, k]] == 0
    chances = [math.exp(ppo_loops.log_softmax_at(np.zeros(4), 1, move)) for move in (0, 2, 3)]
    assert chances == pytest.approx([1 / 3] * 3)


# --- the order of a round


def order(items: int, key: int, number: int) -> list[int]:
    found, counts = np.full(items, -1), np.array([0, number])
    ppo_loops.shuffle_all(key, counts, found)
    return found.tolist()


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4096, 5000])
def test_every_item_is_dealt_out_once(items) -> None:
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
