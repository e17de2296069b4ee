"""PPO's memory: the turns since the last updates, with what the policy thought when it played them.

T = turns, G = teams. What was played is learned from in shuffled batches and then written over.
"""

import torch

from arena.encoders.observe import Encoder
from arena.rules import TEAM
from marl.rollout import device_loops
from marl.rollout.turn_buffer import TurnBuffer


class Trajectories(TurnBuffer):
    """T turns of G teams: all of them belong to one round of updates."""

    def __init__(self, turns: int, teams: int, encoder: Encoder, device: torch.device, key: int) -> None:
        super().__init__(turns, teams, encoder, device, key)
        shape = (turns, teams, TEAM)
        self.barred = torch.zeros(shape, dtype=torch.int8, device=device)  # move that was masked, -1 for none
        self.log_chances = torch.zeros(shape, device=device)  # of the moves that were played
        self.values = torch.zeros(turns + 1, teams, TEAM, device=device)  # the last: what is expected after it all
        self.begins = torch.zeros(turns, teams, dtype=torch.bool, device=device)  # a match's first turn
        self.advantages = torch.zeros(shape, device=device)
        self.returns = torch.zeros(shape, device=device)

    def estimator(self, gamma: float, decay: float) -> "Estimator":
        return Estimator(self, gamma, decay)

    def dealer(self, items: int) -> "Dealer":
        return Dealer(self, items)


class Estimator:
    """Fills in advantages and returns from rewards and values."""

    def __init__(self, memory: Trajectories, gamma: float, decay: float) -> None:
        played = (memory.rewards, memory.over, memory.values)
        seats = memory.teams * TEAM
        self._estimate = device_loops.bind(
            "advantages_all", seats, memory.device, *played, gamma, decay, memory.advantages, memory.returns
        )

    def __call__(self) -> None:
        self._estimate()


class Dealer:
    """Shuffles items anew for every epoch: always into the same tensor, without sorting, by number and not by state."""

    def __init__(self, memory: Trajectories, items: int) -> None:
        self.order = torch.zeros(items, dtype=torch.int64, device=memory.device)
        self._counts = memory.counts
        self._shuffle = device_loops.bind("shuffle_all", items, memory.device, memory.key, memory.counts, self.order)

    def shuffle(self) -> torch.Tensor:
        """The next order of the items."""
        self._shuffle()
        self._counts[1:] += 1
        return self.order
