"""Passes of PPO's minibatches give the gradients and statistics of the text, whole and in halves, compiled or not."""

import pytest
import torch
from helpers.collecting import CPU
from helpers.ppo_rounds import a_ppo, begin, play

from marl.compute.overlap import Overlap
from marl.fast import blas
from marl.fast.dense_pass import dense_layers
from marl.fast.ppo_passes import PpoPasses
from marl.learners.ppo import Ppo
from marl.ranks.process_group import Solo
from marl.rollout.assignment import MatchAssignment

SEED = 13
pytestmark = pytest.mark.usefixtures("one_thread", "without_onednn")
FORMS = {
    "plain": {},
    "value_clip": {"value_clip": 0.05},
    "regularisers": {"entropy": 0.5, "uniform_kl": 0.3, "value_weight": 0.1},
    "reversals": {"masks_reversal": False},
    "both_sides": {"matches": MatchAssignment(16, self_play_both=(0, 1, 6, 7))},
    "deep": {"body": (24, 16, 12)},
}


def a_learner(**options) -> Ppo:
    """One that has played, and whose policy has moved since: ratios and values are clipped."""
    made = {"matches": 16, "turns": 8, "batch_size": 5 * 16 * 3, "seed": SEED, "spread": 0.2, "group": Solo(CPU)}
    learner, rollout = a_ppo(**made | options)
    begin(rollout)
    play(learner, rollout)
    learner._estimate_advantages()
    with torch.no_grad():
        learner.optimizer.weights += 0.05 * torch.randn(
            learner.optimizer.weights.shape, generator=torch.Generator().manual_seed(SEED)
        )
    return learner


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("halves", [False, True], ids=["whole", "halves"])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_and_statistics_are_those_of_the_text(form, halves, compiled, monkeypatch) -> None:
    assert blas.is_usable()
    if not compiled:
        monkeypatch.setattr(blas, "is_usable", lambda: False)
    learner = a_learner(**FORMS[form])
    passes = PpoPasses(learner, dense_layers(learner.network), Overlap(halves))
    assert [part._chain is not None for part in passes._parts] == [compiled] * (1 + halves)
    batches = learner._shuffler.shuffle().split(learner.minibatches.each)[: learner.minibatches.batches]
    assert len(batches) > 1
    for items in batches:
        expected = learner.gradients(items).clone()
        gradients = learner.optimizer.gradients.clone()
        learner.optimizer.gradients.fill_(torch.nan)
        stats = passes.gradients(items)
        torch.testing.assert_close(stats, expected, rtol=1e-5, atol=1e-6)
        apart = (learner.optimizer.gradients - gradients).norm()
        assert apart <= 1e-5 * gradients.norm(), f"seed {SEED}"
    assert expected[3] > 1e-3, "the policy has moved"
    assert expected[4] > 0, "some ratios are clipped"


def test_halves_give_the_same_bits_every_time() -> None:
    found = []
    for _ in range(4):
        learner = a_learner()
        passes = PpoPasses(learner, dense_layers(learner.network), Overlap(True))
        passes.gradients(learner._shuffler.shuffle()[: learner.minibatches.each])
        found.append(learner.optimizer.gradients.clone())
    assert all(torch.equal(each, found[0]) for each in found)
