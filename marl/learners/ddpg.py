"""DDPG for discrete moves: a softmax actor, a critic over observation and moves, and slow copies of both as targets.

M = turns in a batch, 3 = the team's snakes. One update:

    target  = n-step return + discount * target critic(next observation, target actor's shares)
    critic <- (critic(observation, move) - target)^2
    actor  <- - critic(observation, actor's shares) - entropy
    targets <- a little of actor and critic

Nothing here waits for the device, so a whole update can be one CUDA graph.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer

from arena.rules import TEAM
from marl.compute.overlap import Branch
from marl.compute.precision import Precision
from marl.config.schema import DdpgConfig, NetworkConfig
from marl.learners.replay_buffer import Batch, ReplayBuffer
from marl.networks.networks import MOVES, Critics, actor_of, lowest, value_of
from marl.networks.policy import BARRED, legal, shape_of
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.rollout import Rollout

ALIGNED = 8


def turns_of(batch_size: int) -> int:
    """Turns that a batch of so many snake transitions takes: whole ones, in eights, as matrix units like it."""
    return ALIGNED * -(-batch_size // (ALIGNED * TEAM))


class Ddpg:
    """Actor, critics, their targets and optimisers."""

    LOGGED = (
        "losses/critic", "losses/actor", "losses/entropy", "losses/value", "losses/actor_grad", "losses/critic_grad",
        "losses/skipped",
    )  # fmt: skip
    SHOWN: ClassVar = {"critic": "losses/critic", "actor": "losses/actor"}  # label -> what is logged
    answers = MOVES
    note = None  # of a turn nothing more is kept than what every buffer keeps

    def __init__(
        self,
        config: DdpgConfig,
        network: NetworkConfig,
        buffer: ReplayBuffer,
        group: Solo | Ranks,
        precision: Precision,
        sync_freq: int = 1,
        seed: int = 1,
        masked: bool = True,
    ) -> None:
        self.config, self.buffer, self.encoder, self._masked = config, buffer, buffer.encoder, masked
        self._group, self._precision, self._sync_freq = group, precision, sync_freq
        device = buffer.device
        torch.manual_seed(seed)  # first weights only: everything else that is random is drawn by number
        self.shape = shape_of(network, MOVES)
        critics = Critics(1 + config.twin, self.encoder, self.shape, config.critic_form, config.critic == "team")
        self.raw_actor, self.raw_critics = actor_of(self.encoder, self.shape).to(device), critics.to(device)
        self.actor, self.critics = group.wrap(self.raw_actor), group.wrap(self.raw_critics)
        # Copies of what all ranks agree on after wrapping.
        self.target_actor, self.target_critics = (
            copy.deepcopy(net).requires_grad_(False) for net in (self.raw_actor, self.raw_critics)
        )
        self.actor_optimizer = precision.optimizer(self.raw_actor.parameters(), config.a_lr)
        self.critic_optimizer = precision.optimizer(self.raw_critics.parameters(), config.c_lr)
        self.sampler = buffer.sampler(turns_of(config.batch_size), config.n_step, config.gamma)
        self.turns, self.updates, self.rows = config.turns, config.updates, turns_of(config.batch_size)
        self.sums = torch.zeros(1 + len(self.LOGGED), device=device)  # batches of this rank, and sums over them
        self._in_a_row = torch.zeros((), device=device)  # steps that were skipped, up to now
        self._online = [*self.raw_actor.parameters(), *self.raw_critics.parameters()]
        self._targets = [*self.target_actor.parameters(), *self.target_critics.parameters()]
        self._micro = 0
        # Not under DDP, whose exchanges must come in the same order on all ranks; and a joined critic is read by the
        # actor's part while its own changes it.
        self._beside = Branch(device, group.world == 1 and group.backend is None and config.critic_form == "heads")

    def attach(self, rollout: Rollout) -> None:
        """Any matches will do: nothing is remembered of them but what the buffer holds."""

    def act(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits of the moves for what snakes see."""
        return self._beside.in_halves(self._act, rows)

    def _act(self, rows: torch.Tensor) -> torch.Tensor:
        return self._precision.step_of(self.raw_actor, rows, None, None)[0]

    def learn(self) -> None:
        """One round of updates."""
        for _ in range(self.updates):
            self.update()

    def update(self) -> None:
        """Learn from one batch; with sync_freq, step and exchange gradients at every so many."""
        self._micro = (self._micro + 1) % self._sync_freq
        batch = self.sampler.draw()
        if self._micro == 0:
            self._learn(batch, step=True)
            with torch.no_grad():
                torch._foreach_lerp_(self._targets, self._online, self.config.tau)
        else:
            with self._group.no_sync(self.actor, self.critics):
                self._learn(batch, step=False)

    def _learn(self, batch: Batch, step: bool) -> None:
        """Gradients of both networks from a batch, and a step along them. The actors work beside the critics."""
        precision, moves, beside = self._precision, batch.moves, self._beside
        rows, next_rows = precision.narrow(batch.observations), precision.narrow(batch.next_observations)
        next_shares = beside.run(self._next_shares, next_rows)
        logits = beside.run(self._logits, rows)
        with precision.cast():
            values = self.critics(rows, moves)
        values = values.float()
        actor_part = beside.run(self._learn_actor, logits, values, rows, step)
        target = self._target(batch, next_rows, next_shares())
        first, *more = (F.mse_loss(each, target) for each in value_of(values, moves))
        critic_loss = sum(more, first)
        critic_norm = self._descend(self.critic_optimizer, critic_loss, step)
        actor_loss, entropy, value, actor_norm = actor_part()
        both = actor_norm + critic_norm
        skipped = (both - both).ne(0).float()  # 1 if one of them is not finite
        if step:
            self._in_a_row.add_(1).mul_(skipped)
        logged = (torch.ones_like(skipped), critic_loss, actor_loss, entropy, value, actor_norm, critic_norm, skipped)
        self.sums += torch.stack([number.detach() for number in logged]).nan_to_num(0.0, 0.0, 0.0)

    def _descend(self, optimizer: Optimizer, loss: torch.Tensor, step: bool) -> torch.Tensor:
        """Add the loss's gradients, and if asked step; the norm of the gradients, 0 without a step.

        Times sync_freq, so that the mean over all batches is the mean norm of a step.
        """
        self._precision.backward(optimizer, loss if self._sync_freq == 1 else loss / self._sync_freq)
        if not step:
            return torch.zeros_like(loss)
        return self._precision.step(optimizer, self.config.max_grad_norm) * self._sync_freq

    @torch.no_grad()
    def _next_shares(self, next_rows: torch.Tensor) -> torch.Tensor:
        with self._precision.cast():
            logits = self.target_actor(next_rows)
        return self._legal(logits, next_rows).softmax(-1)

    @torch.no_grad()
    def _target(self, batch: Batch, next_rows: torch.Tensor, next_shares: torch.Tensor) -> torch.Tensor:
        with self._precision.cast():
            values = self.target_critics(next_rows, next_shares)
        value = lowest(value_of(values.float(), next_shares))
        return batch.returns + batch.discounts[:, None] * value

    def _legal(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return legal(logits, rows, self.encoder) if self._masked else logits.float()

    def _logits(self, rows: torch.Tensor) -> torch.Tensor:
        with self._precision.cast():
            return self.actor(rows)

    def _learn_actor(
        self, logits: Callable[[], torch.Tensor], values: torch.Tensor, rows: torch.Tensor, step: bool
    ) -> tuple[torch.Tensor, ...]:
        """Loss, entropy, value and norm of the gradients."""
        log_shares = self._legal(logits(), rows).log_softmax(-1)
        shares = log_shares.exp()
        value = lowest(value_of(self._values_for_actor(values, rows, shares), shares)).mean()
        entropy = -(shares * log_shares).sum(-1).mean()
        loss = -value - self.config.entropy * entropy
        if self.config.even:
            allowed = log_shares > BARRED / 2
            loss = loss - self.config.even * (log_shares * allowed).sum() / allowed.sum()
        return loss, entropy, value, self._descend(self.actor_optimizer, loss, step)

    def _values_for_actor(self, values: torch.Tensor, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """The critics' answer to the actor's shares, through which gradients reach the actor and nothing else.

        Heads have said already what each move is worth. A joined critic must be asked again: unwrapped, since ranks
        must not exchange its gradients here, and frozen.
        """
        if self.config.critic_form == "heads":
            return values.detach()
        self.raw_critics.requires_grad_(False)
        with self._precision.cast():
            values = self.raw_critics(rows, shares).float()
        self.raw_critics.requires_grad_(True)
        return values

    def epsilon(self, episodes: int) -> float:
        """Share of random moves after so many episodes."""
        config = self.config
        return max(config.epsilon_min, config.epsilon * config.epsilon_speed**episodes)

    @property
    def warmup_turns(self) -> int:
        """Turns before the first update."""
        return max(self.config.warmup_turns, self.config.n_step + 1)

    def follow(self, lr_factor: float, share_done: float) -> None:
        """Learning rates at this point of the run."""
        factor = lr_factor * (1 - (1 - self.config.lr_end) * share_done)
        for optimizer, rate in ((self.actor_optimizer, self.config.a_lr), (self.critic_optimizer, self.config.c_lr)):
            self._precision.set_lr(optimizer, rate * factor)

    def logged(self) -> torch.Tensor:
        """Batches, sums of LOGGED over them since the last call, and the steps just skipped in a row; on the device."""
        sums = torch.cat((self.sums, self._in_a_row[None]))
        self.sums.zero_()
        return sums

    def last_batch(self) -> dict[str, torch.Tensor]:
        """What the last update was made of."""
        return vars(self.sampler.batch)

    def rates(self) -> str:
        """Learning rates as configured."""
        return f"{self.config.a_lr:g}, {self.config.c_lr:g}"

    def lower_rates(self) -> str:
        """Flags that make the next attempt more careful."""
        return f"--a_lr {self.config.a_lr / 3:.1g} --c_lr {self.config.c_lr / 3:.1g}"

    def networks(self) -> dict[str, nn.Module]:
        """All that has weights, by name."""
        return {
            "actor": self.raw_actor,
            "critic": self.raw_critics,
            "target_actor": self.target_actor,
            "target_critic": self.target_critics,
        }

    def named_weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        for name, net in self.networks().items():
            yield from ((f"{name}.{key}", tensor) for key, tensor in net.state_dict().items())

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a checkpoint."""
        for name, net in self.networks().items():
            own = {
                key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")
            }
            net.load_state_dict(own)

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that an update depends on; the same on all ranks."""
        return {
            "actor_optimizer": self._precision.state_dict(self.actor_optimizer),
            "critic_optimizer": self._precision.state_dict(self.critic_optimizer),
            "in_a_row": self._in_a_row,
            "batches": self.buffer.counts[1:],  # they are drawn by number: none is drawn twice
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._precision.load_state_dict(self.actor_optimizer, state["actor_optimizer"])
        self._precision.load_state_dict(self.critic_optimizer, state["critic_optimizer"])
        self._in_a_row.copy_(state["in_a_row"])
        self.buffer.counts[1:] = state["batches"]

    @property
    def bytes(self) -> int:
        """Of what rank_state holds."""
        return self.buffer.bytes

    def rank_state(self) -> dict[str, Any]:
        """What this rank alone knows, beside its matches."""
        return {"buffer": self.buffer.state_dict(), "sums": self.sums}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state["buffer"])
        self.sums.copy_(state["sums"])
