"""PPO's loss: worked by hand, and against a second formulation, one snake and one action after another, in double."""

import math

import pytest
import torch
from helpers.ppo_minibatch import MASKED, NONE, OPTIONS, TEAM, made_up, some_coefs

from marl.learners.ppo_loss import Coefs, PpoBatch, ppo_loss

SEED = 20
POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIPPED = range(5)
pytestmark = pytest.mark.usefixtures("one_thread")


# --- a second formulation


def slow_loss(outputs: torch.Tensor, batch: PpoBatch, coefs: Coefs) -> tuple[torch.Tensor, list[float]]:
    """The loss and the means of its statistics: numbers and `if`, as one would write it for one snake."""
    total, sums = torch.zeros((), dtype=torch.double), [0.0] * 5
    for i in range(len(outputs)):
        for k in range(TEAM):
            played, off = int(batch.actions[i, k]), int(batch.masked[i, k])
            legal = [action for action in range(4) if action != off]
            powers = {action: torch.exp(outputs[i, k, action]) for action in legal}
            probs = {action: power / sum(powers.values()) for action, power in powers.items()}
            ratio = probs[played] / math.exp(batch.log_probs[i, k])
            advantage, value = float(batch.advantages[i, k]), outputs[i, k, 4]
            low, high = 1 - coefs.clip, 1 + coefs.clip
            bounded = low if ratio < low else high if ratio > high else ratio
            policy = -min(ratio * advantage, bounded * advantage)
            old, returns = float(batch.values[i, k]), float(batch.returns[i, k])
            error = (value - returns) ** 2
            if coefs.value_clip > 0:
                near = max(min(value, old + coefs.value_clip), old - coefs.value_clip)
                error = max(error, (near - returns) ** 2)
            entropy = -sum(prob * torch.log(prob) for prob in probs.values())
            cross_entropy = -sum(torch.log(prob) for prob in probs.values()) / len(legal)
            entropy_coef, uniform_coef = coefs.regularisers.tolist()
            loss = policy + coefs.value_weight * error / 2 - entropy_coef * entropy + uniform_coef * cross_entropy
            total = total + loss
            found = (policy, error / 2, entropy, ratio - 1 - torch.log(ratio), float(bounded is not ratio))
            sums = [
                a + float(b.detach() if isinstance(b, torch.Tensor) else b) for a, b in zip(sums, found, strict=True)
            ]
    snakes = len(outputs) * TEAM
    return total / snakes, [each / snakes for each in sums]


@pytest.mark.parametrize(
    ("options", "masked"),
    [(options, masked) for options in OPTIONS for masked in MASKED if options == OPTIONS[-1] or masked == "some"],
    ids=str,
)
def test_loss_gradient_and_statistics_are_those_of_the_slow_loss(options, masked) -> None:
    (outputs, batch), coefs = made_up(masked=masked, seed=SEED), some_coefs(**options)
    mine, its = outputs.clone().requires_grad_(), outputs.double().requires_grad_()
    loss, stats = ppo_loss(mine, batch, coefs)
    expected, means = slow_loss(its, batch, coefs)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    assert stats.tolist() == pytest.approx(means, rel=1e-5, abs=1e-6)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(mine.grad, its.grad.float(), rtol=1e-4, atol=1e-7)
    assert not stats.requires_grad


@pytest.mark.parametrize("masked", MASKED)
def test_the_made_up_minibatch_has_every_case_of_the_loss(masked) -> None:
    """Ratios clipped on both sides and for both signs of the advantage, values clipped and not, masks as named."""
    outputs, batch = made_up(masked=masked, seed=SEED)
    off = torch.arange(4) == batch.masked[..., None]
    log_probs = outputs[..., :4].masked_fill(off, -torch.inf).log_softmax(-1)
    ratios = (log_probs.gather(-1, batch.actions.long()[..., None])[..., 0] - batch.log_probs).exp()
    for outside in (ratios > 1.2, ratios < 0.8):
        assert (outside & (batch.advantages > 0)).sum() >= 3
        assert (outside & (batch.advantages < 0)).sum() >= 3
    assert 20 < ((ratios - 1).abs() < 0.2).sum() < 110
    assert 5 < ((outputs[..., 4] - batch.values).abs() > 0.3).sum() < 118
    share = (batch.masked != NONE).float().mean()
    assert {"none": share == 0, "some": 0.3 < share < 0.7, "all": share == 1}[masked]


# --- by hand


def one(ratio=1.0, advantage=1.0, value=0.0, returns=0.0, old_value=0.0, logits=(0.0, 0.0, 0.0, 0.0), **options):
    """Gradient and statistics of a single snake that played action 2; ratio: of its probability now to that before."""
    outputs = torch.tensor([[[*logits, value]]], requires_grad=True)

    def number(x: float) -> torch.Tensor:
        return torch.full((1, 1), x)

    actions, masked = torch.full((2, 1, 1), 2, dtype=torch.int8)
    masked.fill_(NONE)
    old_log_prob = math.log(0.25) - math.log(ratio)
    batch = PpoBatch(actions, masked, number(old_log_prob), number(old_value), number(advantage), number(returns))
    loss, stats = ppo_loss(outputs, batch, some_coefs(**({"entropy": 0.0} | options)))
    loss.backward()
    return outputs.grad[0, 0].tolist(), stats.tolist()


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


def test_a_masked_action_has_no_gradient() -> None:
    outputs, batch = made_up(masked="all", seed=SEED)
    outputs.requires_grad_()
    ppo_loss(outputs, batch, some_coefs(uniform_kl=0.3))[0].backward()
    assert not outputs.grad.gather(-1, batch.masked.long()[..., None]).any()


def test_logits_in_bf16_are_read_in_full_precision() -> None:
    outputs, batch = made_up(seed=SEED)
    loss, stats = ppo_loss(outputs.bfloat16(), batch, some_coefs())
    assert loss.dtype == stats.dtype == torch.float32
