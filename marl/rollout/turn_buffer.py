"""Where a rollout writes: the last turns of every team of this rank, as plain tensors on one device.

T = turns kept, G = teams, W = width of an observation. A row is one turn of one team, seen by its three snakes.
Observations are kept as the encoder's bytes and only once. So a write is O(1) and a snake's turn costs W + 6 bytes.
"""

import torch

from arena.encoders.observe import Encoder
from arena.rules import TEAM

ROWS = ("observations", "moves", "rewards", "over")


class TurnBuffer:
    """A ring of T turns of G teams. The observations, nearly all of it, may lie elsewhere: on the host.

    `key` is what draws of batches follow from; each rank has its own.
    """

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
        self.storage = storage or device
        self.key = key
        self.dtype = torch.int8 if encoder.low.dtype.kind == "i" else torch.uint8
        self.observations = torch.zeros(turns, teams, TEAM, encoder.width, dtype=self.dtype, device=self.storage)
        self.moves = torch.zeros(turns, teams, TEAM, dtype=torch.int8, device=device)
        self.rewards = torch.zeros(turns, teams, TEAM, device=device)
        self.over = torch.zeros(turns, teams, dtype=torch.bool, device=device)
        self.counts = torch.zeros(2, dtype=torch.int64, device=device)  # turns written, batches or epochs drawn
        # Copied by whole words, which is several times faster than byte by byte.
        self.words = self.observations.view(turns * teams, -1).view(torch.int64)

    @property
    def bytes(self) -> int:
        """What the buffer occupies."""
        return sum(t.numel() * t.element_size() for t in (self.observations, self.moves, self.rewards, self.over))

    def write_observations(self, rows: torch.Tensor) -> None:
        """Put what the snakes see into the row of the turn about to be played."""
        at = (self.counts[:1] % self.turns).to(self.storage)
        words = rows.view(1, -1).view(torch.int64).to(self.storage)
        self.words.view(self.turns, -1).index_copy_(0, at, words)

    def advance(self) -> None:
        """The turn is written: go on to the next row."""
        self.counts[:1] += 1

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies on the host of all that has been written."""
        held = min(int(self.counts[0]), self.turns)
        rows = {name: getattr(self, name)[:held] for name in ROWS}
        return {name: tensor.to("cpu", copy=True) for name, tensor in {**rows, "counts": self.counts}.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Go on where state_dict() left off; the buffer must be of the same size."""
        self.counts.copy_(state["counts"])
        for name in ROWS:
            getattr(self, name)[: len(state[name])].copy_(state[name])
