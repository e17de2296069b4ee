"""PPO's minibatches with a dense network on a CPU, without autograd.

A minibatch is cut into parts that run at once, one on each side of an Overlap. On one thread a part is one compiled
call: rows to numbers, forward, the loss's gradient, backward.

T = turns of a rollout, G = teams, 3 = snakes of a team.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from arena.backends.chain import chain
from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rules import ACTIONS, TEAM
from marl.compute.overlap import Overlap
from marl.fast.dense_kernels import LEVELS, gather_rows, mean_rows, multiply
from marl.fast.dense_pass import DenseLayers, DensePass
from marl.learners.adam import views_of
from marl.learners.ppo import Ppo
from marl.learners.rollout_buffer import RolloutBuffer
from marl.rollout.turn_kernels import NONE, max_and_sum_exp

# Columns of `stats`, in the order of ppo_loss.
POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIPPED = range(5)
STATS = 5


class Targets(NamedTuple):
    """What a minibatch is trained on: tensors [T, G, 3] of the rollout buffer (values: [T + 1, G, 3])."""

    actions: torch.Tensor
    masked: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class Minibatch(NamedTuple):
    """M rows (turns of a team) of a minibatch and what is computed for them."""

    idx: torch.Tensor  # [M] int64: t * G + g
    outputs: torch.Tensor  # [M, 3, 5]: the network's logits and value
    gradients: torch.Tensor  # [M, 3, 5]: of the loss by the outputs
    stats: torch.Tensor  # [M * 3, STATS]


@njit
def loss_gradient(i, batch, targets, coefs):
    """The gradient of ppo_loss (ppo_loss.py) by the four logits and the value of one snake, and its statistics."""
    row = i // TEAM
    k = i % TEAM
    teams = targets.actions.shape[1]
    t = int(batch.idx[row]) // teams
    g = int(batch.idx[row]) % teams
    action = int(targets.actions[t, g, k])
    masked = int(targets.masked[t, g, k])
    logits = batch.outputs[row, k]
    scale = 1.0 / batch.stats.shape[0]

    highest, total = max_and_sum_exp(logits, masked)
    log_sum_exp = highest + math.log(total)
    entropy = 0.0
    for a in range(ACTIONS):
        if a != masked:
            log_prob = logits[a] - log_sum_exp
            entropy -= math.exp(log_prob) * log_prob

    advantage = targets.advantages[t, g, k]
    log_ratio = logits[action] - log_sum_exp - targets.log_probs[t, g, k]
    ratio = math.exp(log_ratio)
    clipped = min(max(ratio, 1.0 - coefs.clip), 1.0 + coefs.clip)
    uniform_prob = 1.0 / ACTIONS if masked == NONE else 1.0 / (ACTIONS - 1)
    policy_grad = 0.0 if clipped * advantage < ratio * advantage else ratio * advantage  # 0 where the ratio is clipped
    for a in range(ACTIONS):
        if a == masked:
            batch.gradients[row, k, a] = 0.0
        else:
            log_prob = logits[a] - log_sum_exp
            prob = math.exp(log_prob)
            grad_log_prob = (1.0 if a == action else 0.0) - prob
            entropy_grad = coefs.regularisers[0] * prob * (log_prob + entropy)
            uniform_grad = coefs.regularisers[1] * (prob - uniform_prob)
            batch.gradients[row, k, a] = scale * (entropy_grad + uniform_grad - policy_grad * grad_log_prob)

    value = logits[ACTIONS]
    old_value = targets.values[t, g, k]
    value_error = value - targets.returns[t, g, k]
    if coefs.value_clip > 0 and abs(value - old_value) > coefs.value_clip:
        clipped_value = old_value + math.copysign(coefs.value_clip, value - old_value)
        clipped_error = clipped_value - targets.returns[t, g, k]
        if clipped_error * clipped_error > value_error * value_error:
            value_error = clipped_error
            scale = 0.0  # the clipped value does not depend on the network
    batch.gradients[row, k, ACTIONS] = scale * coefs.value_weight * value_error

    batch.stats[i, POLICY_LOSS] = -min(ratio * advantage, clipped * advantage)
    batch.stats[i, VALUE_LOSS] = value_error * value_error / 2
    batch.stats[i, ENTROPY] = entropy
    batch.stats[i, KL] = ratio - 1.0 - log_ratio
    batch.stats[i, CLIPPED] = 1.0 if clipped != ratio else 0.0


loss_gradients = item_loop(loss_gradient)


class PpoPasses:
    """The gradients of minibatches, in the learner's optimizer."""

    def __init__(self, learner: Ppo, layers: DenseLayers, overlap: Overlap) -> None:
        each = learner.minibatches.each
        sizes = [each - each // 2, each // 2] if overlap.splits and each > 1 else [each]
        gradients = learner.optimizer.gradients
        self._parts = [
            _Part(learner, layers, size, size / each, gradients if i == 0 else torch.zeros_like(gradients))
            for i, size in enumerate(sizes)
        ]
        self._overlap = overlap

    def gradients(self, items: torch.Tensor) -> torch.Tensor:
        """Write the gradients of these items; returns the means of the statistics."""
        first, *rest = self._parts
        running = [self._overlap.run(part.backward, items[first.items :]) for part in rest]
        stats = first.weight * first.backward(items[: first.items])
        for part, wait in zip(rest, running, strict=True):
            stats += part.weight * wait()
            first.gradients.add_(part.gradients)
        return stats


class _Part:
    """A part of every minibatch, with tensors of its own."""

    def __init__(self, learner: Ppo, layers: DenseLayers, items: int, weight: float, gradients: torch.Tensor) -> None:
        """gradients: of all weights, flat."""
        buffer = learner.buffer
        self.items, self.weight, self.gradients, self._buffer = items, weight, gradients, buffer
        self._x = torch.zeros(items * TEAM, buffer.encoder.width)
        self._pass = DensePass(layers, self._x)
        outputs = self._pass.outputs.view(items, TEAM, -1)
        stats = torch.zeros(items * TEAM, STATS)
        self._batch = Minibatch(torch.zeros(items, dtype=torch.int64), outputs, torch.zeros_like(outputs), stats)
        played = (buffer.actions, buffer.masked, buffer.log_probs, buffer.values, buffer.advantages, buffer.returns)
        rows = items * TEAM
        self._loss_gradient = loss_gradients.bind(rows, buffer.device, self._batch, Targets(*played), learner.coefs)
        by_outputs = self._batch.gradients.view(rows, -1)
        self._backward = self._pass.bind_backward(by_outputs, views_of(gradients, learner.optimizer.parameters))
        self._chain = self._bind_chain(buffer, self._pass.compiled) if self._pass.compiled is not None else None

    def _bind_chain(self, buffer: RolloutBuffer, forward: partial) -> Callable[[int], None]:
        """All of `backward` but the copy of the items, in one compiled call."""
        rows, idx = buffer.obs.view(buffer.turns * buffer.teams, -1), self._batch.idx
        gather = partial(gather_rows, rows.numpy(), idx.numpy(), self._x.view(len(idx), -1).numpy())
        self._means = torch.zeros(STATS)
        levels = np.zeros((LEVELS, STATS), np.float32)
        mean = partial(mean_rows, self._batch.stats.numpy(), levels, self._means.numpy())
        weigh = partial(multiply, self._batch.gradients.view(-1).numpy(), np.float32(self.weight))
        weighed = () if self.weight == 1 else (weigh,)
        return chain((gather, forward, self._loss_gradient, *weighed, self._backward, mean))

    def backward(self, items: torch.Tensor) -> torch.Tensor:
        """Write the gradients of these items; returns the means of the statistics, until the next call."""
        batch = self._batch
        batch.idx.copy_(items)
        if self._chain is not None:
            self._chain(1)
            return self._means
        self._x.copy_(self._buffer.obs_at(items).view(self._x.shape))
        self._pass.forward()
        self._loss_gradient()
        if self.weight != 1:
            batch.gradients.mul_(self.weight)
        self._backward()
        return batch.stats.mean(0)
