"""The gradients of one update of DDPG with dense networks on a CPU, without autograd (networks/dense_pass.py).

Losses are those of ddpg.py. Actor and critic may be computed in two threads: each has tensors of its own.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from arena.encoders import Encoder
from arena.rules import ACTIONS
from marl.config.learner_configs import DdpgConfig
from marl.learners.ddpg_kernels import actor_gradient, mask_logits, td_gradient
from marl.learners.replay_buffer import Batch
from marl.networks.dense_pass import DenseLayers, DensePass, Gradients
from marl.rollout.turn_kernels import NONE


class DdpgPasses:
    """Passes of actor, critic and their targets over one batch, always in the same tensors."""

    def __init__(
        self,
        config: DdpgConfig,
        batch: Batch,
        encoder: Encoder,
        layers: Sequence[DenseLayers],
        gradients: Gradients,
        masks_reversal: bool,
    ) -> None:
        """layers: of actor, critic, target actor and target critic. gradients: of actor and critic."""
        self.batch = batch
        self._obs, self._next_obs = (each.flatten(0, 1) for each in (batch.obs, batch.next_obs))
        self._x, self._next_x = (torch.zeros(self._obs.shape) for _ in range(2))
        inputs = (self._x, self._x, self._next_x, self._next_x)
        passes = (DensePass(each, x) for each, x in zip(layers, inputs, strict=True))
        self._actor, self._critic, self._target_actor, self._target_critic = passes
        self._direction_at = encoder.direction_at if masks_reversal else NONE

        def empty() -> torch.Tensor:
            return torch.zeros(len(self._obs), ACTIONS)

        self._masked, self._log_probs, self._probs, self._by_log_probs, self._by_logits = (empty() for _ in range(5))
        self._next_masked, self._next_probs, self._by_q_values = (empty() for _ in range(3))
        self._actor_backward = self._actor.bind_backward(self._by_logits, gradients.of[0])
        self._critic_backward = self._critic.bind_backward(self._by_q_values, gradients.of[1])
        self._mask_logits = self._bind_mask(self._actor.outputs, self._obs, self._masked)
        self._mask_next_logits = self._bind_mask(self._target_actor.outputs, self._next_obs, self._next_masked)
        rows, q_values = batch.rows, self._critic.outputs
        actions, returns = rows.actions.flatten(0, 1), rows.returns.flatten()
        td = (q_values, actions, self._target_critic.outputs, self._next_probs, returns, rows.discounts)
        self._td = [tensor.numpy() for tensor in (*td, self._by_q_values)]
        arrays = (tensor.numpy() for tensor in (self._log_probs, self._probs, q_values))
        coefs = np.float32(config.entropy), np.float32(config.uniform_kl or 0.0)
        self._of_actor = (*arrays, *coefs, self._by_log_probs.numpy())

    def read_batch(self) -> None:
        """Turn the observations of the present batch into floats."""
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
