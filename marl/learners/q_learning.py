"""Value decomposition, VDN and QMIX: each snake's Q-network sees its own observation, the team's Q-value is learned.

M = turns in a batch, 3 = the team's snakes. One update:

    Q_team   = mixer(Q_1(o_1, a_1), Q_2(o_2, a_2), Q_3(o_3, a_3); state)          VDN: the sum
    a'_k     = argmax_a Q_k(o'_k, a)                                              double Q-learning
    target   = team's n-step return + discount * Q_team_target(o', a')
    networks <- (Q_team - target)^2
    targets  <- a little of the networks

The team's reward is the sum of its snakes' rewards. The Q-values are the outputs of the actor: its likeliest action is
the greedy one, so evaluations, exports and past selves play it as any other policy.
"""

import copy
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from arena.rules import ACTIONS
from marl.config.learner_configs import QLearningConfig
from marl.config.sections import NetworkConfig
from marl.learners.adam import Adam
from marl.learners.replay_buffer import BatchRows
from marl.learners.replay_learner import ReplayLearner
from marl.networks.actors import make_actor
from marl.networks.mixers import MonotonicMixer, SumMixer, TeamQ
from marl.networks.policy import MASKED_LOGIT
from marl.networks.spec import spec_from_config


class QLearning(ReplayLearner[QLearningConfig]):
    """Q-network, mixer, their targets and one optimizer."""

    LOGGED = ("losses/td", "value/team_q", "grad_norm/q", "updates/skipped")
    SHOWN: ClassVar = {"td": "losses/td", "q": "value/team_q"}
    OPTIMIZERS: ClassVar = {"q": ("optimizer", "q_lr")}
    greedy = True

    def _make_networks(self, network: NetworkConfig) -> None:
        config, device = self.config, self.buffer.device
        self.spec = spec_from_config(network, ACTIONS)
        self.actor = make_actor(self.encoder, self.spec)
        is_sum = config.mixer == "sum"
        self.mixer = SumMixer() if is_sum else MonotonicMixer(self.encoder, self.spec, config.mixer_width)
        self.team_q = TeamQ(self.actor, self.mixer).to(device)
        self.ddp_team_q = self.group.wrap(self.team_q)
        # Copied after wrapping, which gives all ranks the same weights.
        self.target = copy.deepcopy(self.team_q).requires_grad_(False)
        self.optimizer = Adam(self.team_q, config.q_lr)

    def _targets(self) -> list[nn.Module]:
        return [self.target]

    def wrapped(self) -> list[Any]:
        return [self.ddp_team_q]

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Logits of the greedy policy: 0 for the legal action with the highest Q-value, all others next to never."""
        best = self._masked(super().act(obs), obs).argmax(-1, keepdim=True)
        logits = torch.full((len(obs), ACTIONS), MASKED_LOGIT, device=obs.device)
        return logits.scatter_(-1, best, 0.0)

    def losses(self, batch: BatchRows) -> tuple[torch.Tensor, torch.Tensor]:
        obs, next_obs = (self.precision.cast(self.buffer.obs_at(rows)) for rows in (batch.idx, batch.next_idx))
        target = self._target(batch, next_obs)
        with self.precision.autocast():
            q_team = self.ddp_team_q(obs, batch.actions)
        loss = F.mse_loss(q_team, target)
        return loss, torch.stack((loss.detach(), q_team.detach().mean()))

    @torch.no_grad()
    def _target(self, batch: BatchRows, next_obs: torch.Tensor) -> torch.Tensor:
        """The team's n-step return + discount * target Q-value of the actions that the online networks would take."""
        with self.precision.autocast():
            q_values = self._masked(self.actor(next_obs), next_obs)
            best = torch.zeros_like(q_values).scatter_(-1, q_values.argmax(-1, keepdim=True), 1.0)
            next_value = self.target(next_obs, best)
        return batch.returns.sum(-1) + batch.discounts * next_value

    def step(self, stats: torch.Tensor) -> torch.Tensor:
        norm = self.optimizer.step(self.config.max_grad_norm)
        self._move_targets()
        return norm[None]

    def networks(self) -> dict[str, nn.Module]:
        return {
            "actor": self.actor,
            "mixer": self.mixer,
            "target_actor": self.target.actor,
            "target_mixer": self.target.mixer,
        }
