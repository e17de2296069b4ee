"""Passes of DDPG give the gradients and statistics of the text, in turn and beside each other, compiled or not; and so
do their compiled losses alone."""

import pytest
import torch
from helpers.collecting import CPU, a_filled_buffer, add_weight_noise

from arena.encoders import encoder_named
from arena.rules import ACTIONS, TEAM
from marl.compute.overlap import Overlap
from marl.config.learner_configs import DdpgConfig
from marl.config.sections import NetworkConfig
from marl.fast import blas
from marl.fast.ddpg_passes import DdpgPasses, actor_gradient, mask_logits, td_gradient
from marl.fast.dense_pass import dense_layers
from marl.learners.ddpg import Ddpg
from marl.learners.precision import Precision
from marl.learners.replay_buffer import ReplayBuffer
from marl.networks.policy import MASKED_LOGIT, mask_reversal
from marl.ranks.process_group import Solo
from marl.rollout.turn_kernels import NONE

SEED = 31
pytestmark = pytest.mark.usefixtures("one_thread", "without_onednn")
FORMS = {
    "plain": {},
    "uniform_kl": {"uniform_kl": 0.3},
    "no entropy": {"entropy": 0.0, "n_step": 1},
    "reversals": {"masks_reversal": False},
}


@pytest.fixture(scope="module")
def buffer() -> ReplayBuffer:
    return a_filled_buffer(SEED)


def a_learner(buffer: ReplayBuffer, masks_reversal: bool = True, **options) -> Ddpg:
    """One with noise in its weights: its targets are others."""
    config = DdpgConfig(**({"batch_size": 96, "a_lr": 1e-3, "c_lr": 1e-3, "entropy": 0.02} | options))
    rest = (Solo(CPU), Precision("fp32", CPU), 1, SEED, masks_reversal)
    learner = Ddpg(config, NetworkConfig(body=(24, 16)), buffer, *rest)
    add_weight_noise(learner, SEED)
    return learner


def passes_of(learner: Ddpg, halves: bool) -> DdpgPasses:
    critics = learner.critics.each[0], learner.target_critics.each[0]
    networks = (learner.actor, critics[0], learner.target_actor, critics[1])
    return DdpgPasses(learner, [dense_layers(network) for network in networks], Overlap(halves))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("halves", [False, True], ids=["in turn", "beside each other"])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_and_statistics_are_those_of_the_text(form, halves, compiled, buffer, monkeypatch) -> None:
    assert blas.is_usable()
    if not compiled:
        monkeypatch.setattr(blas, "is_usable", lambda: False)
    learner = a_learner(buffer, **FORMS[form])
    passes = passes_of(learner, halves)
    for _ in range(3):
        batch = learner.sampler.draw()
        expected = learner.gradients(batch)
        optimizers = learner.optimizers().values()
        gradients = [optimizer.gradients.clone() for optimizer in optimizers]
        for optimizer in optimizers:
            optimizer.gradients.fill_(torch.nan)
        torch.testing.assert_close(passes.gradients(batch), expected, rtol=1e-5, atol=1e-6)
        for optimizer, each in zip(optimizers, gradients, strict=True):
            assert (optimizer.gradients - each).norm() <= 1e-5 * each.norm(), f"seed {SEED}"


def test_work_beside_each_other_changes_no_bit(buffer) -> None:
    found = []
    for halves in (False, True, True):
        buffer.counts[1] = 0
        learner = a_learner(buffer)
        stats = passes_of(learner, halves).gradients(learner.sampler.draw())
        found.append(torch.cat([stats, *(each.gradients for each in learner.optimizers().values())]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[1], found[2])


ROWS = 24
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
