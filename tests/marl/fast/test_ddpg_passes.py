"""Passes of DDPG give the gradients and statistics of the text, in turn and beside each other, compiled or not."""

import pytest
import torch
from helpers.collecting import CPU, a_filled_buffer, add_weight_noise

from marl.compute.overlap import Overlap
from marl.config.learner_configs import DdpgConfig
from marl.config.sections import NetworkConfig
from marl.fast import blas
from marl.fast.ddpg_passes import DdpgPasses
from marl.fast.dense_pass import dense_layers
from marl.learners.ddpg import Ddpg
from marl.learners.precision import Precision
from marl.learners.replay_buffer import ReplayBuffer
from marl.ranks.process_group import Solo

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
