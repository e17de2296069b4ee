"""The gradients of one update of DDPG with dense networks on a CPU, without autograd (dense_pass.py).

Actor and critic are computed beside each other: each has tensors of its own.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from arena.rules import ACTIONS
from marl.compute.overlap import Overlap
from marl.fast.ddpg_kernels import actor_gradient, mask_logits, td_gradient
from marl.fast.dense_kernels import gather_rows
from marl.fast.dense_pass import DenseLayers, DensePass
from marl.learners.adam import views_of
from marl.learners.ddpg import Ddpg
from marl.learners.replay_buffer import BatchRows
from marl.rollout.turn_kernels import NONE


class DdpgPasses:
    """Passes of actor, critic and their targets over one batch, always in the same tensors."""

    def __init__(self, learner: Ddpg, layers: Sequence[DenseLayers], overlap: Overlap) -> None:
        """layers: of actor, critic, target actor and target critic."""
        buffer, batch, self._overlap = learner.buffer, learner.sampler.batch, overlap
        rows, snakes = len(batch.idx), batch.returns.numel()
        self._obs, self._next_obs = (torch.zeros(snakes, buffer.encoder.width, dtype=buffer.dtype) for _ in range(2))
        self._x, self._next_x = (torch.zeros(self._obs.shape) for _ in range(2))
        words = buffer.words.numpy()
        self._gathered = [
            (words, idx.numpy(), obs.view(rows, -1).view(torch.int64).numpy())
            for idx, obs in ((batch.idx, self._obs), (batch.next_idx, self._next_obs))
        ]
        inputs = (self._x, self._x, self._next_x, self._next_x)
        passes = (DensePass(each, x) for each, x in zip(layers, inputs, strict=True))
        self._actor, self._critic, self._target_actor, self._target_critic = passes
        self._direction_at = buffer.encoder.direction_at if learner.masks_reversal else NONE

        def empty() -> torch.Tensor:
            return torch.zeros(snakes, ACTIONS)

        self._masked, self._log_probs, self._probs, self._by_log_probs, self._by_logits = (empty() for _ in range(5))
        self._next_masked, self._next_probs, self._by_q_values = (empty() for _ in range(3))
        actor, critic = (views_of(each.gradients, each.parameters) for each in learner.optimizers().values())
        self._actor_backward = self._actor.bind_backward(self._by_logits, actor)
        self._critic_backward = self._critic.bind_backward(self._by_q_values, critic)
        self._mask_logits = self._bind_mask(self._actor.outputs, self._obs, self._masked)
        self._mask_next_logits = self._bind_mask(self._target_actor.outputs, self._next_obs, self._next_masked)
        q_values = self._critic.outputs
        actions, returns = batch.actions.flatten(0, 1), batch.returns.flatten()
        td = (q_values, actions, self._target_critic.outputs, self._next_probs, returns, batch.discounts)
        self._td = [tensor.numpy() for tensor in (*td, self._by_q_values)]
        arrays = (tensor.numpy() for tensor in (self._log_probs, self._probs, q_values))
        coefs = np.float32(learner.config.entropy), np.float32(learner.config.uniform_kl or 0.0)
        self._of_actor = (*arrays, *coefs, self._by_log_probs.numpy())

    def gradients(self, batch: BatchRows) -> torch.Tensor:
        """Write the gradients of the sampler's batch; returns the means of the statistics."""
        overlap = self._overlap
        self.read_batch()
        next_probs = overlap.run(self.compute_next_probs)
        probs = overlap.run(self.compute_probs)
        self.compute_q_values()
        actor = overlap.run(self.learn_actor)  # after compute_probs: overlapping work runs in order
        next_probs()
        self.compute_targets()
        critic_loss = self.learn_critic()
        probs()
        return torch.tensor((critic_loss, *actor()))

    def read_batch(self) -> None:
        """Fetch the observations of the present batch, and turn them into floats."""
        for arrays in self._gathered:
            gather_rows(*arrays)
        self._x.copy_(self._obs)
        self._next_x.copy_(self._next_obs)

    def compute_next_probs(self) -> None:
        """The target actor's probabilities."""
        self._target_actor.forward()
        self._mask_next_logits()
        torch.softmax(self._next_masked, -1, out=self._next_probs)

    def compute_probs(self) -> None:
        """The actor's probabilities."""
        self._actor.forward()
        self._mask_logits()
        torch.log_softmax(self._masked, -1, out=self._log_probs)
        torch.exp(self._log_probs, out=self._probs)

    def compute_q_values(self) -> None:
        """The critic's values of all actions: of its own loss, and of the actor's."""
        self._critic.forward()

    def compute_targets(self) -> None:
        """The target critic's values, after the target actor's probabilities."""
        self._target_critic.forward()

    def learn_critic(self) -> float:
        """Write the critic's gradients; returns its loss."""
        loss = td_gradient(*self._td)
        self._critic_backward()
        return loss

    def learn_actor(self) -> tuple[float, float, float]:
        """Write the actor's gradients; returns loss, entropy and value."""
        numbers = actor_gradient(*self._of_actor)
        torch.ops.aten._log_softmax_backward_data.out(
            self._by_log_probs, self._log_probs, -1, torch.float32, out=self._by_logits
        )
        self._actor_backward()
        return numbers

    def _bind_mask(self, logits: torch.Tensor, obs: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        return partial(mask_logits, logits.numpy(), obs.numpy(), self._direction_at, out.numpy())
