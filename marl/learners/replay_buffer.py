"""DDPG's memory: the turns that were written, and batches of them with n-step returns. M = rows of a batch."""

import torch

from arena.encoders.observe import Encoder
from arena.rules import TEAM
from marl.rollout import device_loops
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_loops import MOVES


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


class ReplayBuffer(TurnBuffer):
    """DDPG's: what a turn leads to is the row n turns later."""

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
                torch.index_select(buffer.words, 0, where, out=words)
            else:
                words.copy_(torch.index_select(buffer.words, 0, where.to(buffer.storage)))
        return batch
