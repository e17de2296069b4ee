"""What learners with a replay buffer have in common: batches, accumulation, target networks, exploration, saving.

A subclass makes its networks and optimizers and computes the gradients of a batch (`_learn`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from arena.encoders import Packing, encoder_named
from arena.rules import TEAM
from marl.compute.adam import Adam
from marl.compute.precision import Precision
from marl.config.learner_configs import ReplayConfig
from marl.config.network_config import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.learner import Learner
from marl.learners.replay_buffer import Batch, ReplayBuffer
from marl.networks.dense_pass import DenseInference
from marl.networks.policy import mask_reversal
from marl.networks.stacked_pass import StackedInference
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout, Wrap
from marl.rollout.turn_chain import TurnCalls, TurnPart

Config = TypeVar("Config", bound=ReplayConfig)
ALIGNED = 8  # turns: matrix units like multiples of eight rows


def batch_turns_of(batch_size: int) -> int:
    """Whole turns of three snakes for a batch of this many snake transitions, in eights."""
    return ALIGNED * -(-batch_size // (ALIGNED * TEAM))


class ReplayLearner(Learner, Generic[Config]):
    """Batches from a replay buffer, and slow copies of the networks as targets."""

    uses_epsilon = True
    # Name in logs and checkpoints -> attribute of the optimizer, option of its learning rate.
    OPTIMIZERS: ClassVar[dict[str, tuple[str, str]]]

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
        fused: bool = True,
    ) -> None:
        super().__init__(buffer, group, precision, sync_freq)
        self.config: Config = config
        self._masks_reversal = masks_reversal
        self.batch_turns = batch_turns_of(config.batch_size)
        self.sampler = buffer.sampler(self.batch_turns, config.n_step, config.gamma, fused)
        self.turns, self.updates = config.turns, config.updates
        self.warmup_turns = max(config.warmup_turns, config.n_step + 1)
        self._fused = fused
        self._infer: DenseInference | StackedInference | None = None  # for `act`, if the actor is dense
        self._accumulated = 0  # batches since the last step
        torch.manual_seed(seed)  # initial weights only: everything else that is random is drawn by number
        self._make_networks(network)
        self._online, self._targets = self._weights_and_targets()

    @classmethod
    def from_config(
        cls, config: TrainConfig, teams: int, group: Solo | Ranks, precision: Precision, key: int
    ) -> "ReplayLearner[Config]":
        """The learner of a configuration, with a buffer for this many teams. key: of the draws of batches."""
        section = getattr(config, config.learner_section)
        encoder = encoder_named(config.network.encoder)
        packing = cls.packing_for(config, precision)
        buffer = ReplayBuffer.sized(section.buffer_size, teams, encoder, group.device, key, packing)
        rest = (group, precision, config.ddp.sync_freq, config.seed, config.mask_reversal, config.fused)
        return cls(section, config.network, buffer, *rest)

    # --- what a subclass says

    @classmethod
    def packing_for(cls, config: TrainConfig, precision: Precision) -> Packing | None:
        """The packed rows that the learner of a configuration can read; None: plain rows."""
        return None

    @abstractmethod
    def _make_networks(self, network: NetworkConfig) -> None:
        """Make networks, targets and optimizers."""

    @abstractmethod
    def _target_pairs(self) -> Iterable[tuple[nn.Module, nn.Module]]:
        """Each network with its target."""

    def _weights_and_targets(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """All weights, and those of the targets in the same order."""
        online: list[torch.Tensor] = []
        targets: list[torch.Tensor] = []
        for network, target in self._target_pairs():
            online += network.parameters()
            targets += target.parameters()
        return online, targets

    @abstractmethod
    def _wrapped(self) -> Sequence[Any]:
        """The networks as their gradients are exchanged between ranks."""

    @abstractmethod
    def _learn(self, batch: Batch, step: bool) -> None:
        """Accumulate the gradients of a batch; with `step`, step along them."""

    # --- learning

    def attach(self, rollout: Rollout) -> None:
        if isinstance(self._infer, StackedInference):
            self._infer.write_into(rollout.outputs)

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Logits of the local actions."""
        if self._infer:
            return self.overlap.split_batch(self._infer, obs)
        return self.overlap.split_batch(lambda part: self._precision.act(self.actor, part, None, None)[0], obs)

    def bind_turn(self, rollout: Rollout, part: TurnPart) -> TurnCalls | None:
        is_own = type(self).act is ReplayLearner.act and self.record_step is None
        if not isinstance(self._infer, DenseInference) or not is_own:
            return None
        return TurnCalls.of(self._infer.bind(rollout.obs[part.seats], rollout.outputs[part.seats]))

    def learn(self) -> None:
        for _ in range(self.updates):
            self.update()

    def update(self) -> None:
        """Learn from one batch; with sync_freq, exchange gradients and step after every sync_freq batches."""
        self._accumulated = (self._accumulated + 1) % self._sync_freq
        batch = self.sampler.draw()
        if self._accumulated == 0:
            self._learn(batch, step=True)
            self._finish_step()
        else:
            with self._group.no_sync(*self._wrapped()):
                self._learn(batch, step=False)

    @torch.no_grad()
    def _finish_step(self) -> None:
        """Move the targets by tau."""
        torch._foreach_lerp_(self._targets, self._online, self.config.tau)

    @property
    def _period(self) -> int:
        """Updates after which the learner is where it began: nothing accumulated, all networks stepped."""
        return self._sync_freq * self.config.period

    def _masked(self, logits: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        return mask_reversal(logits, obs, self.encoder) if self._masks_reversal else logits.float()

    def _descend(self, optimizer: Adam, loss: torch.Tensor, step: bool) -> torch.Tensor:
        """Accumulate the loss's gradients, and step if asked; the norm of the gradients, 0 without a step.

        The norm is multiplied by sync_freq, so that its mean over all batches is the mean norm of a step.
        """
        self._precision.backward(optimizer, loss if self._sync_freq == 1 else loss / self._sync_freq)
        if not step:
            return torch.zeros_like(loss)
        return self._precision.optimizer_step(optimizer, self.config.max_grad_norm) * self._sync_freq

    # --- what the trainer asks

    def epsilon(self, episodes: int) -> float:
        config = self.config
        return max(config.epsilon_min, config.epsilon * config.epsilon_speed**episodes)

    def anneal(self, lr_factor: float, share_done: float) -> None:
        factor = lr_factor * (1 - (1 - self.config.lr_end) * share_done)
        self.lrs = {f"lr/{name}": rate * factor for name, rate in self._rates().items()}
        for optimizer, lr in zip(self._optimizers().values(), self.lrs.values(), strict=True):
            self._precision.set_lr(optimizer, lr)

    def _optimizers(self) -> dict[str, Adam]:
        return {name: getattr(self, attribute) for name, (attribute, _) in self.OPTIMIZERS.items()}

    def _rates(self) -> dict[str, float]:
        """Learning rates as configured."""
        return {name: getattr(self.config, option) for name, (_, option) in self.OPTIMIZERS.items()}

    def instrument(self, wrap: Wrap, outputs: torch.Tensor) -> None:
        """Batches are measured apart from what is learned from them."""
        super().instrument(wrap, outputs)
        sampler, draw, update = self.sampler, self.sampler.draw, self.update
        sampler.draw = lambda: sampler.batch  # drawn before, as a part of its own
        draw = wrap("batches", draw)
        learn = wrap("update", lambda: [update() for _ in range(self._period)])

        def updates() -> None:
            for _ in range(self.updates // self._period):
                for _ in range(self._period):
                    draw()
                learn()

        self.learn = updates

    def last_batch(self) -> dict[str, torch.Tensor]:
        batch, packing = self.sampler.batch, self.buffer.packing
        obs, next_obs = batch.obs, batch.next_obs
        if not self.sampler.gathers:
            kept = self.buffer.obs.flatten(0, 1)
            obs, next_obs = kept[batch.rows.idx], kept[batch.rows.next_idx]
        if packing is not None:
            obs, next_obs = packing.unpack(obs), packing.unpack(next_obs)
        return {**batch.rows._asdict(), "obs": obs, "next_obs": next_obs}

    def lr_text(self) -> str:
        return ", ".join(f"{rate:g}" for rate in self._rates().values())

    def lower_lr_flags(self) -> str:
        options = (option for _, option in self.OPTIMIZERS.values())
        return " ".join(f"--{option} {getattr(self.config, option) / 3:.1g}" for option in options)

    # --- saving

    def state_dict(self) -> dict[str, Any]:
        return {
            **{f"{name}_optimizer": self._precision.state_dict(each) for name, each in self._optimizers().items()},
            "in_a_row": self._skipped_in_a_row,
            "batches": self.buffer.counts[1:],  # they are drawn by number: none is drawn twice
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, optimizer in self._optimizers().items():
            self._precision.load_state_dict(optimizer, state[f"{name}_optimizer"])
        self._skipped_in_a_row.copy_(state["in_a_row"])
        self.buffer.counts[1:] = state["batches"]

    @property
    def rank_state_bytes(self) -> int:
        return self.buffer.bytes

    def rank_state(self) -> dict[str, Any]:
        return {"buffer": self.buffer.written(), "sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state["buffer"])
        self.sums.copy_(state["sums"])
