"""Compiled losses of DDPG: their gradients are autograd's of the formulas in learners/ddpg.py."""

import pytest
import torch

from arena.encoders import encoder_named
from arena.rules import ACTIONS, TEAM
from marl.fast.ddpg_kernels import actor_gradient, mask_logits, td_gradient
from marl.networks.policy import MASKED_LOGIT, mask_reversal
from marl.rollout.turn_kernels import NONE

SEED, ROWS = 6, 24
SNAKES = ROWS * TEAM


@pytest.fixture
def draw() -> torch.Generator:
    print(f"seed {SEED}")
    return torch.Generator().manual_seed(SEED)


def one_hot(draw: torch.Generator) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.randint(0, ACTIONS, (SNAKES,), generator=draw), ACTIONS).float()


def test_td_gradient(draw) -> None:
    q_values, target_q_values = (torch.randn(SNAKES, ACTIONS, generator=draw) for _ in range(2))
    actions, probs = one_hot(draw), torch.randn(SNAKES, ACTIONS, generator=draw).softmax(-1)
    returns, discounts = torch.randn(SNAKES, generator=draw), torch.rand(ROWS, generator=draw).round()
    gradient = torch.full((SNAKES, ACTIONS), torch.nan)
    given = (q_values, actions, target_q_values, probs, returns, discounts, gradient)
    loss = td_gradient(*(tensor.numpy() for tensor in given))
    q_values.requires_grad_()
    target = returns + discounts.repeat_interleave(TEAM) * (target_q_values * probs).sum(-1)
    expected = ((q_values * actions).sum(-1) - target).square().mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(gradient, q_values.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("entropy_coef", "uniform_coef"), [(0.0, 0.0), (0.02, 0.0), (0.1, 0.5)])
@pytest.mark.parametrize("masks", [True, False])
def test_actor_gradient(entropy_coef, uniform_coef, masks, draw) -> None:
    logits, q_values = (torch.randn(SNAKES, ACTIONS, generator=draw) for _ in range(2))
    if masks:
        logits[one_hot(draw).bool()] = MASKED_LOGIT
    log_probs = logits.log_softmax(-1)
    gradient = torch.full((SNAKES, ACTIONS), torch.nan)
    arrays = [tensor.numpy() for tensor in (log_probs, log_probs.exp(), q_values)]
    found = actor_gradient(*arrays, entropy_coef, uniform_coef, gradient.numpy())
    log_probs.requires_grad_()
    probs = log_probs.exp()
    value, entropy = (probs * q_values).sum(-1).mean(), -(probs * log_probs).sum(-1).mean()
    legal = log_probs > MASKED_LOGIT / 2
    loss = -value - entropy_coef * entropy - uniform_coef * (log_probs * legal).sum() / legal.sum()
    loss.backward()
    assert found == pytest.approx([loss.item(), entropy.item(), value.item()], rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradient, log_probs.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("masks", [True, False])
def test_masked_logits(masks, draw) -> None:
    encoder = encoder_named("features")
    obs = torch.randint(0, 2, (SNAKES, encoder.width), generator=draw, dtype=torch.int8)
    logits, masked = torch.randn(SNAKES, ACTIONS, generator=draw), torch.zeros(SNAKES, ACTIONS)
    mask_logits(logits.numpy(), obs.numpy(), encoder.direction_at if masks else NONE, masked.numpy())
    assert torch.equal(masked, mask_reversal(logits, obs, encoder) if masks else logits)
