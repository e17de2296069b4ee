"""DDPG for discrete actions: a softmax actor, a critic of observations and actions, and slow copies of both as targets.

M = turns in a batch, 3 = the team's snakes. One update:

    target  = n-step return + discount * Q_target(next obs, target actor's probs)
    critic <- (Q(obs, action) - target)^2
    actor  <- - Q(obs, actor's probs) - entropy
    targets <- a little of actor and critic

With a team critic this is MADDPG. MATD3 adds a second critic, noise on the target actor's logits, and `policy_delay`:
the last two lines only in every policy_delay-th update (configs/maddpg.yaml, matd3.yaml).
"""

import copy
from typing import Any, ClassVar

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from arena.rules import ACTIONS
from marl.config.learner_configs import DdpgConfig
from marl.config.sections import NetworkConfig
from marl.learners.adam import Adam
from marl.learners.replay_buffer import BatchRows
from marl.learners.replay_learner import ReplayLearner
from marl.learners.target_noise import TargetNoise
from marl.networks.actors import make_actor
from marl.networks.critics import Critics, expected_q, min_over_critics
from marl.networks.policy import MASKED_LOGIT
from marl.networks.spec import spec_from_config


class Ddpg(ReplayLearner[DdpgConfig]):
    """Actor, critics, their targets and optimizers."""

    LOGGED = (
        "losses/critic", "losses/actor", "policy/entropy", "value/mean_q", "grad_norm/actor", "grad_norm/critic",
        "updates/skipped",
    )  # fmt: skip
    SHOWN: ClassVar = {"critic": "losses/critic", "actor": "losses/actor"}
    OPTIMIZERS: ClassVar = {"actor": ("actor_optimizer", "a_lr"), "critic": ("critic_optimizer", "c_lr")}

    def _make_networks(self, network: NetworkConfig) -> None:
        config, device = self.config, self.buffer.device
        self.spec = spec_from_config(network, ACTIONS)
        critics = Critics(1 + config.twin, self.encoder, self.spec, config.critic_form, config.critic == "team")
        self.actor, self.critics = make_actor(self.encoder, self.spec).to(device), critics.to(device)
        self.ddp_actor, self.ddp_critics = self.group.wrap(self.actor), self.group.wrap(self.critics)
        # Copied after wrapping, which gives all ranks the same weights.
        self.target_actor, self.target_critics = (
            copy.deepcopy(net).requires_grad_(False) for net in (self.actor, self.critics)
        )
        self.actor_optimizer, self.critic_optimizer = Adam(self.actor, config.a_lr), Adam(self.critics, config.c_lr)
        self._critic_steps = 0  # since the last step of the actor
        smoothing = (self.batch_turns, config.target_noise, config.target_noise_clip)
        self._target_noise = TargetNoise(self.buffer, *smoothing) if config.target_noise else None

    def _targets(self) -> list[nn.Module]:
        return [self.target_actor, self.target_critics]

    def wrapped(self) -> list[Any]:
        return [self.ddp_actor, self.ddp_critics]

    @property
    def _moves_actor(self) -> bool:
        """Whether the next step moves the actor: the last of every policy_delay steps does."""
        return self._critic_steps == self.config.policy_delay - 1

    def update(self, batch: BatchRows) -> None:
        if self._target_noise is not None:
            self._target_noise.draw()
        super().update(batch)

    def losses(self, batch: BatchRows) -> tuple[torch.Tensor, torch.Tensor]:
        obs, next_obs = (self.precision.cast(self.buffer.obs_at(rows)) for rows in (batch.idx, batch.next_idx))
        target = self._target(batch, next_obs)
        with self.precision.autocast():
            q_values = self.ddp_critics(obs, batch.actions)
        q_values = q_values.float()
        critic_loss = self._critic_loss(q_values, batch.actions, target)
        if not self._moves_actor:
            return critic_loss, torch.cat((critic_loss.detach()[None], critic_loss.new_zeros(3)))
        with self.precision.autocast():
            logits = self.ddp_actor(obs)
        log_probs = self._masked(logits, obs).log_softmax(-1)
        actor_loss, entropy, value = self._actor_loss(log_probs, self._q_for_actor(q_values, obs, log_probs.exp()))
        delay = self.config.policy_delay
        # Times delay: the mean over all batches is then the mean over those that move the actor.
        stats = (critic_loss, delay * actor_loss, delay * entropy, delay * value)
        return critic_loss + actor_loss, torch.stack([each.detach() for each in stats])

    @torch.no_grad()
    def _target(self, batch: BatchRows, next_obs: torch.Tensor) -> torch.Tensor:
        """n-step return + discount * Q_target of the target actor's probabilities, of twin critics the lower one."""
        with self.precision.autocast():
            logits = self.target_actor(next_obs)
        if self._target_noise is not None:
            logits = logits.float() + self._target_noise.noise
        probs = self._masked(logits, next_obs).softmax(-1)
        with self.precision.autocast():
            q_values = self.target_critics(next_obs, probs)
        return batch.returns + batch.discounts[:, None] * min_over_critics(expected_q(q_values.float(), probs))

    def _critic_loss(self, q_values: torch.Tensor, actions: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean squared TD error, summed over twin critics."""
        first, *more = (F.mse_loss(each, target) for each in expected_q(q_values, actions))
        return sum(more, first)

    def _actor_loss(
        self, log_probs: torch.Tensor, q_values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Loss, entropy and value of the actor's probabilities."""
        probs = log_probs.exp()
        value = min_over_critics(expected_q(q_values, probs)).mean()
        entropy = -(probs * log_probs).sum(-1).mean()
        loss = -value - self.config.entropy * entropy
        if self.config.uniform_kl:
            legal = log_probs > MASKED_LOGIT / 2
            loss = loss - self.config.uniform_kl * ((log_probs * legal).sum() / legal.sum())
        return loss, entropy, value

    def _q_for_actor(self, q_values: torch.Tensor, obs: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        """Q-values through which gradients reach the actor and nothing else.

        Heads have given the value of each action already. A joined critic is called again with the actor's
        probabilities, and with weights that have no gradients.
        """
        if self.config.critic_form == "heads":
            return q_values.detach()
        frozen = {name: parameter.detach() for name, parameter in self.critics.named_parameters()}
        with self.precision.autocast():
            return functional_call(self.critics, frozen, (obs, probs)).float()

    def step(self, stats: torch.Tensor) -> torch.Tensor:
        max_norm, moves_actor = self.config.max_grad_norm, self._moves_actor
        critic_norm = self.critic_optimizer.step(max_norm)
        self._critic_steps = (self._critic_steps + 1) % self.config.policy_delay
        if not moves_actor:
            return torch.stack((torch.zeros_like(critic_norm), critic_norm))
        actor_norm = self.actor_optimizer.step(max_norm)
        self._move_targets()
        return torch.stack((self.config.policy_delay * actor_norm, critic_norm))

    def networks(self) -> dict[str, nn.Module]:
        return {
            "actor": self.actor,
            "critic": self.critics,
            "target_actor": self.target_actor,
            "target_critic": self.target_critics,
        }
