"""PPO's rollout buffer: the turns since the last updates, with what the policy computed when it played them.

T = turns, G = teams. What was played is learned from in shuffled minibatches and then written over.
"""

from typing import NamedTuple

import torch

from arena.encoders import Encoder
from arena.rules import TEAM
from marl.errors import UserError
from marl.learners.ppo_loss import PpoBatch
from marl.learners.shuffle import shuffle_items
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_kernels import PolicyRows


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

    def __init__(self, turns: int, teams: int, encoder: Encoder, device: torch.device, key: int) -> None:
        super().__init__(turns, teams, encoder, device, key)
        shape = (turns, teams, TEAM)
        self.masked = torch.zeros(shape, dtype=torch.int8, device=device)  # masked action, -1 for none
        self.log_probs = torch.zeros(shape, device=device)  # of the actions that were played
        self.values = torch.zeros(turns + 1, teams, TEAM, device=device)  # the last: after the last turn
        self.advantages = torch.zeros(shape, device=device)
        self.returns = torch.zeros(shape, device=device)
        self.policy_rows = PolicyRows(self.counts, self.masked, self.log_probs, self.values)

    def batch_at(self, rows: torch.Tensor) -> PpoBatch:
        """What the loss of these rows is computed from."""
        played = (self.actions, self.masked, self.log_probs, self.values[:-1], self.advantages, self.returns)
        return PpoBatch(*(tensor.flatten(0, 1)[rows] for tensor in played))

    def row_of(self, turn: int) -> torch.Tensor | None:
        """On a GPU: a round begins with row 0, so that the rows of its turns are known when it is recorded."""
        if self.device.type == "cpu":
            return None
        return self.obs[turn % self.turns].view(-1, self.encoder.width)

    def shuffler(self, items: int) -> "Shuffler":
        return Shuffler(self, items)


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
