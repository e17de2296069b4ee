"""Where a rollout writes: the last turns of every team of this rank, as plain tensors on one device.

T = turns kept, G = teams, W = width of an observation. A row is one turn of one team, seen by its three snakes.
Observations are kept as the encoder's bytes and only once. So a write is O(1) and a snake's turn costs W + 6 bytes.
"""

from functools import partial

import numpy as np
import torch

from arena.encoders import Encoder
from arena.rules import TEAM
from marl.rollout.turn_chain import TurnPart
from marl.rollout.turn_kernels import PolicyRows, TurnRows, count_turn, write_words

# Attribute -> its name in checkpoints.
SAVED = {"obs": "observations", "actions": "moves", "rewards": "rewards", "terminated": "over"}


class TurnBuffer:
    """A ring of T turns of G teams. The observations, nearly all of it, may lie in the host's memory.

    `key` is that of the draws of batches; each rank has its own.
    """

    policy_rows: PolicyRows | None = None  # of buffers that keep what the policy computed when it played

    def __init__(
        self,
        turns: int,
        teams: int,
        encoder: Encoder,
        device: torch.device,
        key: int,
        storage: torch.device | None = None,
    ) -> None:
        self.turns, self.teams, self.encoder, self.device = turns, teams, encoder, device
        self.storage, self.key = storage or device, key
        self.dtype = torch.int8 if encoder.low.dtype.kind == "i" else torch.uint8
        self.obs = torch.zeros(turns, teams, TEAM, encoder.width, dtype=self.dtype, device=self.storage)
        self.actions = torch.zeros(turns, teams, TEAM, dtype=torch.int8, device=device)  # local
        self.rewards = torch.zeros(turns, teams, TEAM, device=device)
        self.terminated = torch.zeros(turns, teams, dtype=torch.bool, device=device)
        self.counts = torch.zeros(2, dtype=torch.int64, device=device)  # turns written, batches or epochs drawn
        self.turn_rows = TurnRows(self.counts, self.actions, self.rewards, self.terminated)
        # Copied by whole words, which is several times faster than byte by byte.
        self.words = self.obs.view(turns * teams, -1).view(torch.int64)
        on_cpu = device.type == "cpu"
        self._rows = self.words.view(turns, -1).numpy() if on_cpu else None
        self._counts = self.counts.numpy() if on_cpu else None

    @property
    def bytes(self) -> int:
        """The size of the buffer."""
        return sum(t.numel() * t.element_size() for t in (self.obs, self.actions, self.rewards, self.terminated))

    def count(self, what: int, number: int = 1) -> None:
        """Add to the number of turns written (0), or of batches or epochs drawn (1)."""
        if self.device.type == "cpu":
            self._counts[what] += number  # a tensor's own addition takes 8 us
        else:
            self.counts[what : what + 1] += number

    def obs_at(self, rows: torch.Tensor) -> torch.Tensor:
        """Observations [M, 3, W] of rows [M], turn * teams + team."""
        return self.obs.flatten(0, 1).index_select(0, rows.to(self.storage)).to(self.device)

    def write_obs(self, obs: torch.Tensor) -> None:
        """Store what the snakes see on the turn about to be played."""
        if self.device.type == "cpu":
            self._rows[self._counts[0] % self.turns] = obs.numpy().view(np.int64).ravel()
            return
        row = (self.counts[:1] % self.turns).to(self.storage)
        words = obs.view(1, -1).view(torch.int64).to(self.storage)
        self.words.view(self.turns, -1).index_copy_(0, row, words)

    def row_of(self, turn: int) -> torch.Tensor | None:
        """Where the encoder can write what the snakes see on turn `turn` of a rollout; None: write_obs copies it."""
        return None

    def bind_writing(self, obs: torch.Tensor, part: TurnPart) -> tuple[partial, partial]:
        """`write_obs(obs)` and `advance` for a part of the seats as compiled calls. For a CPU."""
        counts, words = part.counts.numpy(), obs.view(-1).view(torch.int64).numpy()
        first, last = (len(words) * seat // len(obs) for seat in (part.seats.start, part.seats.stop))
        return partial(write_words, counts, self._rows, first, words[first:last]), partial(count_turn, counts)

    def advance(self) -> None:
        """Go on to the next row: the turn is written."""
        self.count(0)

    def written(self) -> dict[str, torch.Tensor]:
        """All that has been written, by its names in a checkpoint, where it lies: the next turns change it."""
        held = min(int(self.counts[0]), self.turns)
        return {**{saved: getattr(self, name)[:held] for name, saved in SAVED.items()}, "counts": self.counts}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Resume from a copy of written(); the buffer must be of the same size."""
        self.counts.copy_(state["counts"])
        for name, saved in SAVED.items():
            found = state[saved]
            getattr(self, name)[: len(found)].copy_(found)
