"""DDPG's replay buffer: turns of all teams, and uniform batches of them with n-step returns. M = rows of a batch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from arena.backends.loops import item_loop
from arena.encoders import Encoder
from arena.jit import njit
from arena.rng import SLOT_BATCH, draw_below
from arena.rules import ACTIONS, TEAM
from marl.rollout.turn_buffer import TurnBuffer


class BatchRows(NamedTuple):
    """What is drawn for a batch."""

    idx: torch.Tensor  # [M] int64: turn * teams + team
    next_idx: torch.Tensor  # [M] int64: of the turn n later
    returns: torch.Tensor  # [M, 3]: n-step
    discounts: torch.Tensor  # [M]: of the value n turns later; 0 if the match ended before
    actions: torch.Tensor  # [M, 3, 4]: local, one-hot


@njit
def sample_turn(i, key, rows, n_step):
    """A random turn and team of the buffer, for row i of the next batch: uniform over turns with n successors."""
    turns = rows.rewards.shape[0]
    teams = rows.rewards.shape[1]
    written = int(rows.counts[0])
    update = int(rows.counts[1])
    held = min(written, turns)
    turn = (written - held + draw_below(key, update, SLOT_BATCH + 2 * i, held - n_step)) % turns
    return turn, draw_below(key, update, SLOT_BATCH + 2 * i + 1, teams)


@njit
def sample_transition(i, key, rows, n_step, gamma, batch):
    """Row i of a batch: a random turn, its n-step returns, and the index of the turn n later.

    A match that ends within the n turns ends the return; the row at next_idx then counts with discount 0.
    """
    turns = rows.rewards.shape[0]
    teams = rows.rewards.shape[1]
    turn, team = sample_turn(i, key, rows, n_step)
    for k in range(TEAM):
        for action in range(ACTIONS):
            batch.actions[i, k, action] = 0.0
        batch.actions[i, k, int(rows.actions[turn, team, k])] = 1.0
    discount = 1.0
    at = turn
    # Not added up in the batch: a GPU would wait for its memory at each step.
    a = b = c = np.float32(0.0)
    for _ in range(n_step):
        a = np.float32(a + discount * rows.rewards[at, team, 0])
        b = np.float32(b + discount * rows.rewards[at, team, 1])
        c = np.float32(c + discount * rows.rewards[at, team, 2])
        discount *= gamma
        if rows.terminated[at, team]:
            discount = 0.0
        at = at + 1 if at + 1 < turns else 0
    batch.returns[i, 0], batch.returns[i, 1], batch.returns[i, 2] = a, b, c
    batch.discounts[i] = discount
    batch.idx[i] = turn * teams + team
    batch.next_idx[i] = at * teams + team


sample_transitions = item_loop(sample_transition)


class ReplayBuffer(TurnBuffer):
    """The last turns of all teams; the successor of a turn is the row n turns later."""

    @classmethod
    def sized(cls, transitions: int, teams: int, encoder: Encoder, device: torch.device, key: int) -> "ReplayBuffer":
        """A buffer for this many snake transitions; a GPU's is kept on the host if it would not fit."""
        turns = transitions // (TEAM * teams)
        need = turns * teams * TEAM * encoder.width
        fits = device.type != "cuda" or need <= 0.8 * torch.cuda.mem_get_info(device)[0]
        return cls(turns, teams, encoder, device, key, device if fits else torch.device("cpu"))

    def sampler(self, rows: int, n_step: int, gamma: float) -> "Sampler":
        return Sampler(self, rows, n_step, gamma)


class Sampler:
    """Draws batches of M rows with n-step returns, always into the same tensors."""

    def __init__(self, buffer: ReplayBuffer, rows: int, n_step: int, gamma: float) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=buffer.device)

        idx, next_idx = zeros(rows, dtype=torch.int64), zeros(rows, dtype=torch.int64)
        self.batch = BatchRows(idx, next_idx, zeros(rows, TEAM), zeros(rows), zeros(rows, TEAM, ACTIONS))
        self._buffer = buffer
        drawn = (buffer.key, buffer.turn_rows, n_step, gamma, self.batch)
        self._draw: Callable[[], None] = sample_transitions.bind(rows, buffer.device, *drawn)

    def draw(self) -> BatchRows:
        """The next batch: uniform over all turns whose n successors are in the buffer."""
        self._draw()
        self._buffer.count(1)
        return self.batch
