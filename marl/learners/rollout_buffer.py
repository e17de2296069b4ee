"""PPO's rollout buffer: the turns since the last updates, with what the policy computed when it played them.

T = turns, G = teams. What was played is learned from in shuffled minibatches and then written over.
"""

from typing import NamedTuple

import torch

from arena.encoders import Encoder, Packing
from arena.rules import TEAM
from marl.errors import UserError
from marl.learners.ppo_kernels import PolicyRows, Targets, estimate_advantages, shuffle_items
from marl.learners.returns import generalized_advantages
from marl.rollout.turn_buffer import TurnBuffer


class Minibatches(NamedTuple):
    """How a round is cut: shuffled items (turns of a team, or whole teams) into equal minibatches."""

    items: int  # in a round
    turns_per_item: int
    batches: int  # in an epoch

    @property
    def each(self) -> int:
        """Items of a minibatch."""
        return self.items // self.batches

    @classmethod
    def cut(cls, items: int, turns_per_item: int, batch_size: int, sync_freq: int) -> "Minibatches":
        """Minibatches of about batch_size snake turns; their number is a multiple of sync_freq."""
        if sync_freq > items:
            raise UserError(f"ddp.sync_freq is {sync_freq}; allowed: up to {items}, what a round can be cut into")
        batches = min(items, max(1, round(items * turns_per_item * TEAM / batch_size)))
        return cls(items, turns_per_item, max(sync_freq, batches // sync_freq * sync_freq))


class RolloutBuffer(TurnBuffer):
    """T turns of G teams: all of them belong to one round of updates."""

    def __init__(
        self,
        turns: int,
        teams: int,
        encoder: Encoder,
        device: torch.device,
        key: int,
        packing: Packing | None = None,
    ) -> None:
        super().__init__(turns, teams, encoder, device, key, packing=packing)
        shape = (turns, teams, TEAM)
        self.masked = torch.zeros(shape, dtype=torch.int8, device=device)  # masked action, -1 for none
        self.log_probs = torch.zeros(shape, device=device)  # of the actions that were played
        self.values = torch.zeros(turns + 1, teams, TEAM, device=device)  # the last: after the last turn
        self.is_first = torch.zeros(turns, teams, dtype=torch.bool, device=device)  # a match's first turn
        self.advantages = torch.zeros(shape, device=device)
        self.returns = torch.zeros(shape, device=device)
        self.policy_rows = PolicyRows(self.counts, self.masked, self.log_probs, self.values)
        self.targets = Targets(self.actions, self.masked, self.log_probs, self.values, self.advantages, self.returns)

    def row_of(self, turn: int) -> torch.Tensor | None:
        """On a GPU: a round begins with row 0, so that the rows of its turns are known when it is recorded."""
        if self.device.type == "cpu":
            return None
        return self.obs[turn % self.turns].view(-1, self.row_encoder.width)

    def estimator(self, gamma: float, gae_lambda: float, fused: bool = True) -> "Estimator":
        return Estimator(self, gamma, gae_lambda, fused)

    def shuffler(self, items: int) -> "Shuffler":
        return Shuffler(self, items)


class Estimator:
    """Fills in advantages and returns from rewards and values."""

    def __init__(self, buffer: RolloutBuffer, gamma: float, gae_lambda: float, fused: bool) -> None:
        self._buffer, self._gamma, self._gae_lambda, self._fused = buffer, gamma, gae_lambda, fused
        played = (buffer.rewards, buffer.terminated, buffer.values)
        snakes = buffer.teams * TEAM
        self._estimate = estimate_advantages.bind(
            snakes, buffer.device, *played, gamma, gae_lambda, buffer.advantages, buffer.returns
        )

    def __call__(self) -> None:
        if self._fused:
            self._estimate()
            return
        buffer = self._buffer
        advantages, returns = generalized_advantages(
            buffer.rewards, buffer.terminated, buffer.values, self._gamma, self._gae_lambda
        )
        buffer.advantages.copy_(advantages)
        buffer.returns.copy_(returns)


class Shuffler:
    """Permutes items anew for every epoch, into the same tensor: by number, without state and without sorting.

    Items are turns of teams, or teams.
    """

    def __init__(self, buffer: RolloutBuffer, items: int) -> None:
        self.order = torch.zeros(items, dtype=torch.int64, device=buffer.device)
        self._count = buffer.count
        self._shuffle = shuffle_items.bind(items, buffer.device, buffer.key, buffer.counts, self.order)

    def shuffle(self) -> torch.Tensor:
        """The next order of the items."""
        self._shuffle()
        self._count(1)
        return self.order
