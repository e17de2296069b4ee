"""What the trainer asks of a learner, and what learners have in common.

One cycle of the trainer: `turns` turns are played, each with actions from `act` and then `record_step`; then `learn`
makes `updates` updates. Nothing in `act`, `record_step` and `learn` may wait for the device, so that each can be
recorded as a CUDA graph.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numba
import numpy as np
import torch
from torch import nn

from arena.encoders import Encoder
from arena.rules import ACTIONS
from marl.compute.overlap import Overlap
from marl.compute.precision import Precision
from marl.learners.stats_kernels import add_stats
from marl.networks.actors import AnyActor
from marl.networks.dense_pass import Gradients, dense_layers
from marl.networks.spec import NetworkSpec
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout, Wrap
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_chain import TurnCalls, TurnPart


class Learner(ABC):
    """A team in training on one rank: networks, optimizers and a buffer."""

    # Statistics: names in the logs, in the order of `sums`; "updates/skipped" comes last.
    LOGGED: ClassVar[tuple[str, ...]]
    MEASURED: ClassVar[tuple[str, ...]] = ()  # names in the logs of what `measure` returns
    SHOWN: ClassVar[dict[str, str]]  # label on the console -> name of a statistic
    uses_epsilon: ClassVar[bool] = False  # whether `epsilon` means anything
    greedy: ClassVar[bool] = False  # whether past selves and the team's own other side take the likeliest actions
    recurrent: ClassVar[bool] = False  # whether the actor has an LSTM
    outputs: ClassVar[int] = ACTIONS  # numbers that `act` gives per snake: logits, and maybe a value
    record_step: Callable[[], None] | None = None  # called between the choice of the actions and the turn

    actor: AnyActor  # the network that plays, not wrapped
    spec: NetworkSpec  # of the actor
    overlap: Overlap  # on two threads of a CPU: runs half of the work
    turns: int  # played between two rounds of updates
    updates: int  # minibatches in a round
    batch_turns: int  # turns of a team in a minibatch
    warmup_turns: int = 0  # played before the first update

    def __init__(self, buffer: TurnBuffer, group: Solo | Ranks, precision: Precision, sync_freq: int) -> None:
        self.buffer, self._group, self._precision, self._sync_freq = buffer, group, precision, sync_freq
        self.sums = torch.zeros(1 + len(self.LOGGED), device=buffer.device)  # minibatches, and sums of LOGGED over them
        self._skipped_in_a_row = torch.zeros((), device=buffer.device)  # optimizer steps, up to now
        self.lrs: dict[str, float] = {}  # present learning rates, by name in the logs; `anneal` sets them

    @property
    def encoder(self) -> Encoder:
        return self.buffer.encoder

    # --- playing and learning

    def attach(self, rollout: Rollout) -> None:  # noqa: B027 - most learners need nothing
        """Take the matches that the learner plays in."""

    @abstractmethod
    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Outputs [N, outputs] for the observations [N, W] of all snakes that learn."""

    def bind_turn(self, rollout: Rollout, part: TurnPart) -> TurnCalls | None:
        """`act` and `record_step` for some of the matches as compiled calls; None where Python has to do them."""
        return None

    @abstractmethod
    def learn(self) -> None:
        """One round of updates."""

    def epsilon(self, episodes: int) -> float:
        """Share of uniformly random actions after this many episodes."""
        return 0.0

    @abstractmethod
    def anneal(self, lr_factor: float, share_done: float) -> None:
        """Set learning rates and coefficients for this point of the run."""

    # --- dense networks on a CPU, without autograd

    def _may_pass_directly(self, *networks: nn.Module) -> bool:
        """Whether the gradients of networks can be computed without autograd (dense_pass.py).

        Ranks then exchange gradients in one tensor, and not in DistributedDataParallel's backward pass.
        """
        precision = self._precision
        if numba.config.DISABLE_JIT:  # plain Python is for debuggers
            return False
        if self.buffer.packing is not None:  # for kernels on a GPU
            return False
        if self._sync_freq > 1 or precision.device.type != "cpu" or precision.name != "fp32":
            return False
        return all(dense_layers(network) is not None for network in networks)

    def _average(self, gradients: Gradients) -> None:
        """Replace gradients by their mean over the ranks. A collective."""
        self._group.average_gradients(gradients.flat)

    def instrument(self, wrap: Wrap, outputs: torch.Tensor) -> None:
        """Measure the parts of a cycle: functions are replaced by wrap(part, function). outputs: where `act` writes."""
        act = self.act
        self.act = wrap("policy", lambda obs: outputs.copy_(act(obs)))
        if self.record_step is not None:
            self.record_step = wrap("buffer", self.record_step)
        self.learn = wrap("update", self.learn)

    # --- statistics

    def _add_stats(self, stats: torch.Tensor, norm: torch.Tensor, stepped: bool) -> None:
        """Add a minibatch's statistics; the last one, skipped, is 1 if the norm of its gradients is not finite."""
        if norm.device.type == "cpu":
            self._add_numbers(stats.tolist(), norm.item(), stepped)
            return
        in_a_row = self._skipped_in_a_row.view(1)
        add_stats.bind(1 + len(stats), norm.device, stats, norm.view(1), stepped, self.sums, in_a_row)()

    def _add_numbers(self, stats: Sequence[float], norm: float, stepped: bool) -> None:
        """The same on a CPU, without a tensor's methods: each of them takes microseconds."""
        skipped = not math.isfinite(norm)
        if stepped:
            in_a_row = self._skipped_in_a_row.numpy()
            in_a_row[()] = in_a_row + 1 if skipped else 0
        finite = [number if math.isfinite(number) else 0.0 for number in stats]
        sums = self.sums.numpy()
        sums += np.array([1.0, *finite, skipped], np.float32)

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

    @abstractmethod
    def lr_text(self) -> str:
        """Learning rates as configured."""

    @abstractmethod
    def lower_lr_flags(self) -> str:
        """Flags that make the next attempt more careful."""

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

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that an update depends on; the same on all ranks."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore such a state."""

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
