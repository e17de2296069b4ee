"""DDPG's replay buffer: turns of all teams, and uniform batches of them with n-step returns. M = rows of a batch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from arena.backends.loops import item_loop
from arena.encoders import Encoder, Packing
from arena.jit import njit
from arena.rng import SLOT_BATCH, draw_below
from arena.rules import ACTIONS, TEAM
from marl.compute.gather_rows import gather_rows
from marl.config.autoscale import free_memory
from marl.learners.returns import n_step_returns
from marl.rollout.turn_buffer import TurnBuffer
from marl.rollout.turn_kernels import TurnRows


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


class Batch:
    """M rows drawn from the buffer, always in the same tensors. Packed rows are not gathered: kernels find them."""

    def __init__(
        self, rows: int, encoder: Encoder, dtype: torch.dtype, device: torch.device, gathered: bool = True
    ) -> None:
        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.rows = BatchRows(
            empty(rows, dtype=torch.int64),
            empty(rows, dtype=torch.int64),
            empty(rows, TEAM),
            empty(rows),
            empty(rows, TEAM, ACTIONS),
        )
        self.obs, self.next_obs = (empty(rows if gathered else 0, TEAM, encoder.width, dtype=dtype) for _ in range(2))


class ReplayBuffer(TurnBuffer):
    """The last turns of all teams; the successor of a turn is the row n turns later."""

    @classmethod
    def sized(
        cls,
        transitions: int,
        teams: int,
        encoder: Encoder,
        device: torch.device,
        key: int,
        packing: Packing | None = None,
    ) -> "ReplayBuffer":
        """A buffer for this many snake transitions; a GPU's is kept on the host, as plain rows, if it would not fit."""
        turns = transitions // (TEAM * teams)
        need = turns * teams * TEAM * (encoder if packing is None else packing.packed).width
        if device.type == "cuda" and need > 0.8 * free_memory(device):
            return cls(turns, teams, encoder, device, key, torch.device("cpu"))
        return cls(turns, teams, encoder, device, key, device, packing)

    def sampler(self, rows: int, n_step: int, gamma: float, fused: bool = True) -> "Sampler":
        return Sampler(self, rows, n_step, gamma, fused)


class Sampler:
    """Draws batches of M rows with n-step returns, always into the same tensors."""

    def __init__(self, buffer: ReplayBuffer, rows: int, n_step: int, gamma: float, fused: bool = True) -> None:
        gathered = buffer.packing is None
        self.batch = Batch(rows, buffer.encoder, buffer.dtype, buffer.device, gathered)
        self.gathers = gathered  # whether batches hold observations, or only say where they are in the buffer
        self._buffer, self._n_step, self._gamma, self._fused = buffer, n_step, gamma, fused
        self._draw: Callable[[], None] = sample_transitions.bind(
            rows, buffer.device, buffer.key, buffer.turn_rows, n_step, gamma, self.batch.rows
        )
        drawn, batch = self.batch.rows, self.batch
        self._gathered = [
            (obs.view(rows, -1).view(torch.int64), idx)
            for obs, idx in ((batch.obs, drawn.idx), (batch.next_obs, drawn.next_idx))
            if gathered
        ]
        self._arrays: list[tuple[np.ndarray, ...]] = []
        if buffer.device.type == "cpu":
            self._arrays = [(buffer.words.numpy(), idx.numpy(), words.numpy()) for words, idx in self._gathered]

    def draw(self) -> Batch:
        """The next batch: uniform over all turns whose n successors are in the buffer."""
        batch, buffer = self.batch, self._buffer
        self._draw()
        if not self._fused:
            self._compute_returns(buffer.turn_rows, batch.rows)
        buffer.count(1)
        if not self.gathers:
            return batch
        for arrays in self._arrays:
            gather_rows(*arrays)
        if self._arrays:
            return batch
        for words, idx in self._gathered:
            if buffer.storage == buffer.device:
                torch.index_select(buffer.words, 0, idx, out=words)
            else:
                words.copy_(torch.index_select(buffer.words, 0, idx.to(buffer.storage)))
        return batch

    def _compute_returns(self, rows: TurnRows, batch: BatchRows) -> None:
        """The same returns and discounts in torch: what to edit for other targets."""
        turns, teams = rows.terminated.shape
        turn, team = batch.idx // teams, batch.idx % teams
        following = (turn + torch.arange(self._n_step, device=turn.device)[:, None]) % turns
        returns, discounts = n_step_returns(
            rows.rewards[following, team], rows.terminated[following, team], self._gamma
        )
        batch.returns.copy_(returns)
        batch.discounts.copy_(discounts)
