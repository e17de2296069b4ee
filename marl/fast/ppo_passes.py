"""PPO's minibatches with a dense network on a CPU, without autograd.

A minibatch is cut into parts that run at once, one on each side of an Overlap. On one thread a part is one compiled
call: rows to numbers, forward, the loss's gradient, backward.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from arena.backends.chain import chain
from arena.rules import TEAM
from marl.compute.overlap import Overlap
from marl.fast.dense_kernels import LEVELS, gather_rows, mean_rows, multiply
from marl.fast.dense_pass import DenseLayers, DensePass
from marl.fast.ppo_kernels import STATS, Minibatch, Targets, loss_gradients
from marl.learners.adam import views_of
from marl.learners.ppo import Ppo
from marl.learners.rollout_buffer import RolloutBuffer


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
