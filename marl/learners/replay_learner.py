"""What learners with a replay buffer have in common: batches, target networks, exploration, saving.

A subclass makes its networks and optimizers and computes the losses of a batch.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.config.learner_configs import ReplayConfig
from marl.config.sections import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.adam import flatten
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.learners.replay_buffer import BatchRows, ReplayBuffer
from marl.networks.policy import mask_reversal
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Wrap

Config = TypeVar("Config", bound=ReplayConfig)
ALIGNED = 8  # turns: matrix units like multiples of eight rows


def batch_turns_of(batch_size: int) -> int:
    """Whole turns of three snakes for a batch of this many snake transitions, in eights."""
    return ALIGNED * -(-batch_size // (ALIGNED * TEAM))


class ReplayLearner(Learner, Generic[Config]):
    """Batches from a replay buffer, and slow copies of the networks as targets."""

    uses_epsilon = True

    buffer: ReplayBuffer

    def __init__(
        self,
        config: Config,
        network: NetworkConfig,
        buffer: ReplayBuffer,
        group: Solo | Ranks,
        precision: Precision,
        sync_freq: int = 1,
        seed: int = 1,
        masks_reversal: bool = True,
    ) -> None:
        super().__init__(buffer, group, precision, sync_freq)
        self.config: Config = config
        self.masks_reversal = masks_reversal
        self.batch_turns = batch_turns_of(config.batch_size)
        self.sampler = buffer.sampler(self.batch_turns, config.n_step, config.gamma)
        self.turns, self.updates = config.turns, config.updates
        self.warmup_turns = max(config.warmup_turns, config.n_step + 1)
        torch.manual_seed(seed)  # initial weights only: everything else that is random is drawn by number
        self._make_networks(network)
        # The weights of each target network, as one tensor like those of its optimizer.
        self._target_weights = [flatten(target.parameters()) for target in self._targets()]

    @classmethod
    def from_config(
        cls, config: TrainConfig, teams: int, group: Solo | Ranks, precision: Precision, key: int
    ) -> "ReplayLearner[Config]":
        """The learner of a configuration, with a buffer for this many teams. key: of the draws of batches."""
        section = getattr(config, config.learner_section)
        encoder = encoder_named(config.network.encoder)
        buffer = ReplayBuffer.sized(section.buffer_size, teams, encoder, group.device, key)
        rest = (group, precision, config.ddp.sync_freq, config.seed, config.mask_reversal)
        return cls(section, config.network, buffer, *rest)

    # --- what a subclass says

    @abstractmethod
    def _make_networks(self, network: NetworkConfig) -> None:
        """Make networks, targets and optimizers."""

    @abstractmethod
    def _targets(self) -> Iterable[nn.Module]:
        """The target networks, in the order of the optimizers of their networks."""

    # --- learning

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Logits of the local actions."""
        return self.precision.act(self.actor, obs, None, None)[0]

    def learn(self) -> None:
        for _ in range(self.updates):
            self.update(self.sampler.draw())

    @torch.no_grad()
    def _move_targets(self) -> None:
        """Move the target networks a little towards the networks."""
        for target, optimizer in zip(self._target_weights, self.optimizers().values(), strict=True):
            target.lerp_(optimizer.weights, self.config.tau)

    def _masked(self, logits: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        return mask_reversal(logits, obs, self.encoder) if self.masks_reversal else logits.float()

    # --- what the trainer asks

    def epsilon(self, episodes: int) -> float:
        config = self.config
        return max(config.epsilon_min, config.epsilon * config.epsilon_speed**episodes)

    def anneal(self, lr_factor: float, share_done: float) -> None:
        self._set_rates(lr_factor * (1 - (1 - self.config.lr_end) * share_done))

    def instrument(self, wrap: Wrap, outputs: torch.Tensor) -> None:
        """Batches are measured apart from what is learned from them."""
        super().instrument(wrap, outputs)
        update, period = self.update, self.sync_freq * self.config.period
        draw = wrap("batches", self.sampler.draw)
        learn = wrap("update", lambda: [update(self.sampler.batch) for _ in range(period)])

        def updates() -> None:
            for _ in range(self.updates // period):
                for _ in range(period):
                    draw()
                learn()

        self.learn = updates

    def last_batch(self) -> dict[str, torch.Tensor]:
        batch: BatchRows = self._last_batch
        obs_at = self.buffer.obs_at
        return {**batch._asdict(), "obs": obs_at(batch.idx), "next_obs": obs_at(batch.next_idx)}

    # --- saving

    @property
    def rank_state_bytes(self) -> int:
        return self.buffer.bytes

    def rank_state(self) -> dict[str, Any]:
        return {"buffer": self.buffer.written(), "sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state["buffer"])
        self.sums.copy_(state["sums"])
