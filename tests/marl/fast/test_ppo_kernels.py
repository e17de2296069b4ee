"""The compiled gradient of PPO's loss is autograd's of the text, ppo_loss.py."""

import numpy as np
import pytest
import torch
from helpers.ppo_minibatch import MASKED, OPTIONS, TEAM, made_up, some_coefs

from marl.fast.ppo_kernels import STATS, Minibatch, Targets, loss_gradients
from marl.learners.ppo_loss import Coefs, PpoBatch, ppo_loss

SEED = 20
TURNS, TEAMS = 5, 8
pytestmark = pytest.mark.usefixtures("one_thread")


def compiled(outputs: torch.Tensor, batch: PpoBatch, coefs: Coefs) -> tuple[np.ndarray, np.ndarray]:
    """Gradients [M, 3, 5] and statistics [M * 3, 5]; the rows of the minibatch lie in a rollout, in another order."""
    rows = np.random.default_rng(SEED).permutation(TURNS * TEAMS)[: len(outputs)].astype(np.int64)
    held = []
    for tensor in batch:
        array = np.zeros((TURNS * TEAMS, TEAM), tensor.numpy().dtype)
        array[rows] = tensor.numpy()
        held.append(array.reshape(TURNS, TEAMS, TEAM))
    gradients, stats = np.full(outputs.shape, np.nan, np.float32), np.full((outputs[..., 0].numel(), STATS), np.nan)
    minibatch = Minibatch(rows, outputs.numpy(), gradients, stats.astype(np.float32))
    coefs = coefs._replace(regularisers=coefs.regularisers.numpy())
    loss_gradients.cpu_loop()(0, len(stats), (minibatch, Targets(*held), coefs))
    return gradients, minibatch.stats


@pytest.mark.parametrize("masked", MASKED)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_compiled_gradient_is_that_of_the_text(options, masked) -> None:
    (outputs, batch), coefs = made_up(masked=masked, seed=SEED), some_coefs(**options)
    found, stats = compiled(outputs, batch, coefs)
    outputs = outputs.clone().requires_grad_()
    loss, means = ppo_loss(outputs, batch, coefs)
    loss.backward()
    expected = outputs.grad.numpy()
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max(), f"seed {SEED}"
    np.testing.assert_allclose(stats.mean(0), means, rtol=2e-6, atol=1e-6)


def test_statistics_are_those_of_each_snake() -> None:
    (outputs, batch), coefs = made_up(masked="some", seed=SEED), some_coefs(value_clip=0.3)
    _, stats = compiled(outputs, batch, coefs)
    expected = []
    for row in range(len(outputs)):
        for k in range(TEAM):
            at = (slice(row, row + 1), slice(k, k + 1))
            expected.append(ppo_loss(outputs[at], PpoBatch(*(tensor[at] for tensor in batch)), coefs)[1])
    np.testing.assert_allclose(stats, torch.stack(expected), rtol=1e-5, atol=2e-6)
