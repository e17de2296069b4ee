"""A learner from scratch, as a user may write it in plain torch: REINFORCE with a baseline, one update per round."""

from typing import Any, ClassVar

import torch
from torch import nn

from arena.encoders import encoder_named
from arena.rules import ACTIONS, TEAM
from marl.learners.adam import Adam
from marl.learners.learner import Learner
from marl.learners.rollout_buffer import RolloutBuffer
from marl.networks.actors import make_actor
from marl.networks.policy import MASKED_LOGIT
from marl.networks.spec import spec_from_config


class Reinforce(Learner):
    """Log probabilities of what was played, times what it brought beyond the expected."""

    LOGGED = ("losses/policy", "losses/value", "grad_norm/actor", "updates/skipped")
    SHOWN: ClassVar = {"policy": "losses/policy"}
    OPTIMIZERS: ClassVar = {"actor": ("optimizer", "lr")}
    outputs = ACTIONS + 1
    updates = 1

    buffer: RolloutBuffer

    @classmethod
    def from_config(cls, config, teams, group, precision, key) -> "Reinforce":
        turns = max(1, round(config.ppo.update_interval / (config.matches * group.world)))
        buffer = RolloutBuffer(turns, teams, encoder_named(config.network.encoder), group.device, key)
        learner = cls(buffer, group, precision, config.ddp.sync_freq)
        torch.manual_seed(config.seed)
        learner.config, learner.spec = config.ppo, spec_from_config(config.network, cls.outputs)
        learner.actor = make_actor(buffer.encoder, learner.spec).to(group.device)
        learner.ddp_actor = group.wrap(learner.actor)
        learner.optimizer = Adam(learner.actor, config.ppo.lr)
        learner.turns, learner.batch_turns = turns, turns * teams
        learner.rows = torch.arange(turns * teams, device=group.device)
        return learner

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        return self.precision.act(self.actor, obs, None, None)[0]

    def learn(self) -> None:
        buffer, ahead = self.buffer, torch.zeros_like(self.buffer.rewards[0])
        for turn in reversed(range(buffer.turns)):
            ahead = buffer.rewards[turn] + self.config.gamma * ahead * ~buffer.terminated[turn].view(-1, 1).bool()
            buffer.returns[turn] = ahead
        self.update(self.rows)

    def losses(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = self.buffer.batch_at(rows)
        with self.precision.autocast():
            outputs = self.ddp_actor(self.precision.cast(self.buffer.obs_at(rows))).view(len(rows), TEAM, -1).float()
        logits, values = outputs[..., :ACTIONS], outputs[..., ACTIONS]
        masked = torch.arange(ACTIONS, device=rows.device) == batch.masked[..., None]
        log_probs = logits.masked_fill(masked, MASKED_LOGIT).log_softmax(-1)
        of_played = log_probs.gather(-1, batch.actions.long()[..., None]).squeeze(-1)
        policy = -(of_played * (batch.returns - values.detach())).mean()
        value = (values - batch.returns).square().mean()
        return policy + value, torch.stack((policy.detach(), value.detach()))

    def step(self, stats: torch.Tensor) -> torch.Tensor:
        return self.optimizer.step(self.config.max_grad_norm)[None]

    def wrapped(self) -> list[Any]:
        return [self.ddp_actor]

    def anneal(self, lr_factor: float, share_done: float) -> None:
        self._set_rates(lr_factor)

    def last_batch(self) -> dict[str, torch.Tensor]:
        return self.buffer.batch_at(self.rows)._asdict()

    def networks(self) -> dict[str, nn.Module]:
        return {"actor": self.actor}

    rank_state_bytes = 0

    def rank_state(self) -> dict[str, Any]:
        return {"sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.sums.copy_(state["sums"])
