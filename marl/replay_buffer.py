"""DDPG's memory: the last turns of every match of this rank, as plain tensors on one device.

T = turns kept, B = matches, W = width of an observation. A row is one turn of one match, seen by the team's three
snakes. Observations are kept as the encoder's bytes and only once: what a turn leads to is the row n turns later. So a
write is O(1) and a transition costs W + 6 bytes.
"""

import torch

from arena.observe import Encoder
from arena.rules import TEAM
from marl import device_loops
from marl.turn_loops import MOVES

ROWS = ("observations", "moves", "rewards", "over")


class Batch:
    """Rows drawn from the buffer; M of them, the same tensors every time."""

    def __init__(self, rows: int, encoder: Encoder, dtype: torch.dtype, device: torch.device) -> None:
        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.here = empty(rows, dtype=torch.int64)
        self.there = empty(rows, dtype=torch.int64)
        self.returns = empty(rows, TEAM)  # n-step
        self.discounts = empty(rows)  # of the value n turns later; 0 if the match ended before
        self.moves = empty(rows, TEAM, MOVES)  # one-hot
        self.observations = empty(rows, TEAM, encoder.width, dtype=dtype)
        self.next_observations = empty(rows, TEAM, encoder.width, dtype=dtype)


class ReplayBuffer:
    """A ring of T turns of B matches. The observations, nearly all of it, may lie elsewhere: on the host.

    `key` is what the draws of batches follow from; each rank has its own.
    """

    def __init__(
        self,
        turns: int,
        matches: int,
        encoder: Encoder,
        device: torch.device,
        key: int,
        storage: torch.device | None = None,
    ) -> None:
        self.turns, self.matches, self.encoder, self.device = turns, matches, encoder, device
        self.storage = storage or device
        self.key = key
        self.dtype = torch.int8 if encoder.low.dtype.kind == "i" else torch.uint8
        self.observations = torch.zeros(turns, matches, TEAM, encoder.width, dtype=self.dtype, device=self.storage)
        self.moves = torch.zeros(turns, matches, TEAM, dtype=torch.int8, device=device)
        self.rewards = torch.zeros(turns, matches, TEAM, device=device)
        self.over = torch.zeros(turns, matches, dtype=torch.bool, device=device)
        self.counts = torch.zeros(2, dtype=torch.int64, device=device)  # turns written, batches drawn
        # Copied by whole words, which is several times faster than byte by byte.
        self._words = self.observations.view(turns * matches, -1).view(torch.int64)

    @property
    def bytes(self) -> int:
        """What the buffer occupies."""
        return sum(t.numel() * t.element_size() for t in (self.observations, self.moves, self.rewards, self.over))

    def write_observations(self, rows: torch.Tensor) -> None:
        """Put what the snakes see into the row of the turn about to be played."""
        at = (self.counts[:1] % self.turns).to(self.storage)
        words = rows.view(1, -1).view(torch.int64).to(self.storage)
        self._words.view(self.turns, -1).index_copy_(0, at, words)

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

    def sampler(self, rows: int, steps: int, gamma: float) -> "Sampler":
        return Sampler(self, rows, steps, gamma)


class Sampler:
    """Draws batches of M rows with n-step returns, always into the same tensors."""

    def __init__(self, buffer: ReplayBuffer, rows: int, steps: int, gamma: float) -> None:
        self.batch = Batch(rows, buffer.encoder, buffer.dtype, buffer.device)
        self._buffer = buffer
        batch = self.batch
        self._draw = device_loops.bind(
            "sample_all",
            rows,
            buffer.device,
            buffer.key,
            buffer.counts,
            buffer.rewards,
            buffer.over,
            buffer.moves,
            steps,
            gamma,
            batch.here,
            batch.there,
            batch.returns,
            batch.discounts,
            batch.moves,
        )

    def draw(self) -> Batch:
        """The next batch: uniform over all turns whose n followers are in the buffer."""
        batch, buffer = self.batch, self._buffer
        self._draw()
        buffer.counts[1:] += 1
        for rows, where in ((batch.observations, batch.here), (batch.next_observations, batch.there)):
            words = rows.view(len(where), -1).view(torch.int64)
            if buffer.storage == buffer.device:
                torch.index_select(buffer._words, 0, where, out=words)
            else:
                words.copy_(torch.index_select(buffer._words, 0, where.to(buffer.storage)))
        return batch
