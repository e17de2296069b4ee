"""The gradients of a minibatch of PPO, or of one of its two halves: from rows of the buffer to the loss and back."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import nn

from arena.backends.chain import chain
from arena.rules import TEAM
from marl.compute.gather_rows import gather_rows
from marl.compute.shards import mean_by_shard
from marl.learners.ppo_kernels import STATS, Coefs, Minibatch, loss_gradients
from marl.learners.ppo_loss import PpoBatch
from marl.learners.rollout_buffer import RolloutBuffer
from marl.networks.dense_kernels import LEVELS, mean_rows, multiply
from marl.networks.dense_pass import DenseLayers, DensePass, Gradients
from marl.networks.spec import ACTIONS

OUTPUTS = ACTIONS + 1  # logits and a value


class PpoPasses(Protocol):
    """The learner: its network and buffer, and its passes with autograd."""

    buffer: RolloutBuffer
    coefs: Coefs
    turns: int

    @property
    def network(self) -> nn.Module: ...

    def outputs_for(self, items: torch.Tensor, idx: torch.Tensor) -> torch.Tensor: ...

    def loss(self, outputs: torch.Tensor, batch: PpoBatch) -> tuple[torch.Tensor, torch.Tensor]: ...

    def backward(self, tensor: torch.Tensor, weight: float, gradient: torch.Tensor | None = None) -> None: ...


class PpoPart:
    """A part of every minibatch, with tensors of its own: on a CPU there are two, which run at once."""

    def __init__(
        self,
        learner: PpoPasses,
        items: int,
        turns_per_item: int,
        weight: float,
        fused: bool,
        layers: DenseLayers | None,
        shards: int | None,
    ) -> None:
        """layers: of a dense network, whose gradients are computed without autograd. shards: in this part."""
        buffer = learner.buffer
        device, rows = buffer.device, items * turns_per_item
        self.items, self.weight, self.is_fused, self._shards = items, weight, fused, shards
        outputs = torch.zeros(rows, TEAM, OUTPUTS, device=device)
        self.gradients: Gradients | None = None
        if layers is not None:
            self._obs = torch.zeros(rows * TEAM, buffer.encoder.width, dtype=buffer.dtype)
            self._words = self._obs.view(rows, -1).view(torch.int64)
            self._x = torch.zeros(self._obs.shape)
            self._pass, self.gradients = DensePass(layers, self._x), Gradients(learner.network)
            outputs = self._pass.outputs.view(outputs.shape)
        gradients = torch.zeros_like(outputs)
        self.batch = Minibatch(
            torch.zeros(rows, dtype=torch.int64, device=device),
            outputs,
            gradients,
            torch.zeros(rows * TEAM, STATS, device=device),
        )
        self._loss_gradient = loss_gradients.bind(rows * TEAM, device, self.batch, buffer.targets, learner.coefs)
        self._chain: Callable[[int], None] | None = None
        if self.gradients is not None:
            self._backward = self._pass.bind_backward(gradients.view(-1, OUTPUTS), self.gradients.of[0])
            if self._pass.compiled is not None:
                self._chain = self._bind_chain(buffer, self._pass.compiled)

    def _bind_chain(self, buffer: RolloutBuffer, forward: partial) -> Callable[[int], None]:
        """All of `backward` but the copy of the items, in one compiled call."""
        rows, idx = buffer.obs.view(buffer.turns * buffer.teams, -1), self.batch.idx
        gather = partial(gather_rows, rows.numpy(), idx.numpy(), self._x.view(len(idx), -1).numpy())
        self._means = torch.zeros(STATS)
        levels = np.zeros((LEVELS, STATS), np.float32)
        mean = partial(mean_rows, self.batch.stats.numpy(), levels, self._means.numpy())
        weigh = partial(multiply, self.batch.gradients.view(-1).numpy(), np.float32(self.weight))
        weighed = () if self.weight == 1 else (weigh,)
        return chain((gather, forward, self._loss_gradient, *weighed, self._backward, mean))

    def backward(self, learner: PpoPasses, items: torch.Tensor) -> torch.Tensor:
        """Accumulate the gradients of these items; returns the means of the statistics, until the next call."""
        batch = self.batch
        if self.gradients is not None:
            batch.idx.copy_(items)
            if self._chain is not None:
                self._chain(1)
                return self._means
            torch.index_select(learner.buffer.words, 0, batch.idx, out=self._words)
            self._x.copy_(self._obs)
            self._pass.forward()
            self._loss_gradient()
            if self.weight != 1:
                batch.gradients.mul_(self.weight)
            self._backward()
            return mean_by_shard(batch.stats, self._shards)
        outputs = learner.outputs_for(items, batch.idx)
        batch.outputs.copy_(outputs.detach().view(batch.outputs.shape))
        if not self.is_fused:
            targets = (tensor[: learner.turns].flatten(0, 1)[batch.idx] for tensor in learner.buffer.targets)
            loss, stats = learner.loss(outputs.view(batch.outputs.shape), PpoBatch(*targets))
            learner.backward(loss, self.weight)
            batch.stats.copy_(stats)  # their means in every row
            return stats
        self._loss_gradient()
        learner.backward(outputs, self.weight, batch.gradients)
        return mean_by_shard(batch.stats, self._shards)
