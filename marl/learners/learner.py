"""What the trainer asks of a learner, and what learners have in common.

One cycle of the trainer: `turns` turns are played, each with actions from `act`; then `learn` makes `updates` updates.
Nothing in `act` and `learn` may wait for the device, so that each can be recorded as a CUDA graph.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import nn

from arena.encoders import Encoder
from arena.rules import ACTIONS
from marl.learners.adam import Adam
from marl.learners.precision import Precision
from marl.networks.actors import AnyActor
from marl.networks.spec import NetworkSpec
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout, Wrap
from marl.rollout.turn_buffer import TurnBuffer

LARGEST = torch.finfo(torch.float32).max


class Learner(ABC):
    """A team in training on one rank: networks, optimizers and a buffer."""

    # Statistics: names in the logs, in the order of `sums`; "updates/skipped" comes last.
    LOGGED: ClassVar[tuple[str, ...]]
    MEASURED: ClassVar[tuple[str, ...]] = ()  # names in the logs of what `measure` returns
    SHOWN: ClassVar[dict[str, str]]  # label on the console -> name of a statistic
    # Name in logs and checkpoints -> attribute of the optimizer, option of its learning rate.
    OPTIMIZERS: ClassVar[dict[str, tuple[str, str]]]
    uses_epsilon: ClassVar[bool] = False  # whether `epsilon` means anything
    greedy: ClassVar[bool] = False  # whether past selves and the team's own other side take the likeliest actions
    recurrent: ClassVar[bool] = False  # whether the actor has an LSTM
    drawn_name: ClassVar[str] = "batches"  # in checkpoints: what the buffer draws by number, so that none comes twice
    outputs: ClassVar[int] = ACTIONS  # numbers that `act` gives per snake: logits, and maybe a value

    config: Any  # the options of the learner: a section of the configuration
    actor: AnyActor  # the network that plays, not wrapped
    spec: NetworkSpec  # of the actor
    turns: int  # played between two rounds of updates
    updates: int  # minibatches in a round
    batch_turns: int  # turns of a team in a minibatch
    warmup_turns: int = 0  # played before the first update

    def __init__(self, buffer: TurnBuffer, group: Solo | Ranks, precision: Precision, sync_freq: int) -> None:
        self.buffer, self.group, self.precision, self.sync_freq = buffer, group, precision, sync_freq
        self._accumulated = 0  # batches since the last step
        self._stats: list[torch.Tensor] = []  # of these batches
        self._last_batch: Any = None
        self.sums = torch.zeros(1 + len(self.LOGGED), device=buffer.device)  # minibatches, and sums of LOGGED over them
        self._skipped_in_a_row = torch.zeros((), device=buffer.device)  # optimizer steps, up to now
        self.lrs: dict[str, float] = {}  # present learning rates, by name in the logs; `anneal` sets them

    @property
    def encoder(self) -> Encoder:
        return self.buffer.encoder

    # --- playing and learning

    def attach(self, rollout: Rollout) -> None:  # noqa: B027 - most learners need nothing
        """Take the matches that the learner plays in."""

    def begin_round(self) -> None:  # noqa: B027 - most learners need nothing
        """Called before the turns between two rounds of updates are played."""

    @abstractmethod
    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Outputs [N, outputs] for the observations [N, W] of all snakes that learn."""

    @abstractmethod
    def learn(self) -> None:
        """One round of updates."""

    def update(self, batch: Any) -> None:
        """Learn from one batch. With sync_freq ranks exchange gradients, and step, after every sync_freq batches."""
        self._last_batch = batch
        self._accumulated = (self._accumulated + 1) % self.sync_freq
        steps = self._accumulated == 0
        with nullcontext() if steps else self.group.no_sync(*self.wrapped()):
            stats = self.gradients(batch)
        self._stats.append(stats)
        if steps:
            means = stats if self.sync_freq == 1 else torch.stack(self._stats).mean(0)
            self._stats.clear()
            self.finish(stats, means)
        else:
            self._add_stats(stats, stats.new_zeros(len(self.OPTIMIZERS)), stepped=False)

    def gradients(self, batch: Any) -> torch.Tensor:
        """Add the gradients of a batch's loss to those of the optimizers, at a step their mean over the ranks.

        Returns the means of the statistics.
        """
        loss, stats = self.losses(batch)
        self.precision.backward(loss if self.sync_freq == 1 else loss / self.sync_freq)
        if self._accumulated == 0:
            self.precision.take_gradients(*self.optimizers().values())
        return stats

    def finish(self, stats: torch.Tensor, means: torch.Tensor) -> None:
        """Step along the gradients and add up the statistics of the last batch. means: over the batches of the step."""
        norms = self.step(means)
        self._add_stats(stats, norms * self.sync_freq, stepped=True)  # the mean over all batches is that of a step

    @abstractmethod
    def losses(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a batch, whose gradients reach all networks, and its statistics: LOGGED without norms."""

    @abstractmethod
    def step(self, stats: torch.Tensor) -> torch.Tensor:
        """Step along the gradients; returns their norms [optimizers]. stats: means over the batches of the step."""

    @abstractmethod
    def wrapped(self) -> list[Any]:
        """The networks as their gradients are exchanged between ranks: in DistributedDataParallel."""

    def epsilon(self, episodes: int) -> float:
        """Share of uniformly random actions after this many episodes."""
        return 0.0

    @abstractmethod
    def anneal(self, lr_factor: float, share_done: float) -> None:
        """Set learning rates and coefficients for this point of the run."""

    def optimizers(self) -> dict[str, Adam]:
        """By name in logs and checkpoints."""
        return {name: getattr(self, attribute) for name, (attribute, _) in self.OPTIMIZERS.items()}

    def _rates(self) -> dict[str, float]:
        """Learning rates as configured."""
        return {name: getattr(self.config, option) for name, (_, option) in self.OPTIMIZERS.items()}

    def _set_rates(self, factor: float) -> None:
        self.lrs = {f"lr/{name}": rate * factor for name, rate in self._rates().items()}
        for optimizer, rate in zip(self.optimizers().values(), self.lrs.values(), strict=True):
            optimizer.lr.fill_(min(rate, LARGEST))  # no wait for the device

    def lr_text(self) -> str:
        """Learning rates as configured."""
        return ", ".join(f"{rate:g}" for rate in self._rates().values())

    def lower_lr_flags(self) -> str:
        """Flags that make the next attempt more careful."""
        options = (option for _, option in self.OPTIMIZERS.values())
        return " ".join(f"--{option} {getattr(self.config, option) / 3:.1g}" for option in options)

    def instrument(self, wrap: Wrap, outputs: torch.Tensor) -> None:
        """Measure the parts of a cycle: functions are replaced by wrap(part, function). outputs: where `act` writes."""
        act = self.act
        self.act = wrap("policy", lambda obs: outputs.copy_(act(obs)))
        self.learn = wrap("update", self.learn)

    # --- statistics

    def _add_stats(self, stats: torch.Tensor, norms: torch.Tensor, stepped: bool) -> None:
        """Add a minibatch's statistics. The last one is 1 if a norm is not finite: then its step was skipped."""
        skipped = ~norms.isfinite().all()
        if stepped:
            self._skipped_in_a_row.copy_((self._skipped_in_a_row + 1) * skipped)
        row = torch.cat((stats.new_ones(1), stats, norms, skipped[None].float()))
        self.sums += row.nan_to_num(0.0, 0.0, 0.0)

    def pop_stats(self) -> torch.Tensor:
        """Minibatches, sums of LOGGED since the last call, and the steps just skipped in a row; on the device."""
        sums = torch.cat((self.sums, self._skipped_in_a_row[None]))
        self.sums.zero_()
        return sums

    def measure(self) -> torch.Tensor:
        """Values of MEASURED, on the device. Called at a log line only, so that it may cost something."""
        return torch.zeros(0, device=self.buffer.device)

    @abstractmethod
    def last_batch(self) -> dict[str, torch.Tensor]:
        """The tensors of the last minibatch, to look at after a failure."""

    # --- saving

    @abstractmethod
    def networks(self) -> dict[str, nn.Module]:
        """All modules with weights, by name."""

    def named_weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        """All weights; the same on all ranks."""
        for name, net in self.networks().items():
            yield from ((f"{name}.{key}", tensor) for key, tensor in net.state_dict().items())

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a checkpoint."""
        for name, net in self.networks().items():
            prefix = f"{name}."
            net.load_state_dict({key.removeprefix(prefix): t for key, t in weights.items() if key.startswith(prefix)})

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that an update depends on; the same on all ranks."""
        return {
            **{f"{name}_optimizer": self.precision.state_dict(each) for name, each in self.optimizers().items()},
            "in_a_row": self._skipped_in_a_row,
            self.drawn_name: self.buffer.counts[1:],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore such a state."""
        for name, optimizer in self.optimizers().items():
            found = state.get(f"{name}_optimizer") or state["optimizer"]  # the latter in older checkpoints of PPO
            self.precision.load_state_dict(optimizer, found)
        self._skipped_in_a_row.copy_(state["in_a_row"])
        self.buffer.counts[1:] = state[self.drawn_name]

    @property
    @abstractmethod
    def rank_state_bytes(self) -> int:
        """The size of rank_state."""

    @abstractmethod
    def rank_state(self) -> dict[str, Any]:
        """What differs between ranks, beside their matches; not copied."""

    @abstractmethod
    def load_rank_state(self, state: dict[str, Any]) -> None:
        """Restore such a state."""


def lr_factor(scaling: str, world: int) -> float:
    """Factor of the learning rate for `world` ranks, whose batches together count as one batch."""
    return {"none": 1.0, "linear": float(world), "sqrt": math.sqrt(world)}[scaling]


def warmup(update: int, updates: int) -> float:
    """A linear rise from 1/updates at update 0 to 1 at the last update of the warm-up, then 1."""
    return 1.0 if updates <= 0 else min(1.0, (update + 1) / updates)
