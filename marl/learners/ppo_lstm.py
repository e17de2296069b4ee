"""PPO with an LSTM: hidden states are carried through a match, and whole teams with all their turns are shuffled."""

from typing import Any

import torch

from arena.rules import TEAM
from marl.learners.ppo import Ppo


class PpoLstm(Ppo):
    """Ppo whose network has a hidden state [2, N, H]."""

    recurrent = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._hidden = self.actor.initial_state(self.buffer.teams * TEAM, self.buffer.device)
        self._first_hidden = self._hidden.clone()  # at the start of the round
        self._recorded = 0  # turns, counted in Python: a graph holds a whole round
        self._turn_starts = torch.arange(self.turns, device=self.buffer.device)[:, None] * self.buffer.teams
        # Under DistributedDataParallel gradients lie where it wants them.
        if self._group.backend is None and self._parts[0].is_fused:
            self._precision.flatten(self.optimizer)

    def _items(self) -> tuple[int, int]:
        """Teams, with all their turns."""
        return self.buffer.teams, self.buffer.turns

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Outputs; the hidden states go on by one turn."""
        if self._recorded % self.turns == 0:
            self._first_hidden.copy_(self._hidden)
        return self._step(obs, self._hidden)[0]

    def _forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self._step(obs)[0]

    def _step(self, obs: torch.Tensor, out: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        is_first = self._rollout.is_first().repeat_interleave(TEAM)
        return self._precision.act(self.network, obs, is_first, self._hidden, widen=self._widens, out=out)

    def record_step(self) -> None:
        super().record_step()
        self._recorded += 1
        row = self.buffer.counts[:1] % self.buffer.turns
        self.buffer.is_first.index_copy_(0, row, self._rollout.is_first()[None])

    def outputs_for(self, items: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        """The network's outputs [T, 3 n, 5] for n teams with all their turns, from their first hidden states on."""
        buffer = self.buffer
        rows = self._turn_starts + items  # [T, n]
        idx.copy_(rows.flatten())
        obs = self._precision.gather(buffer.obs.flatten(0, 1), idx, self._widens)
        obs = obs.view(self.turns, -1, buffer.row_encoder.width)
        is_first = buffer.is_first.flatten()[rows].repeat_interleave(TEAM, -1)
        hidden = self._first_hidden.view(2, buffer.teams, TEAM, -1)[:, items].view(2, -1, self.spec.lstm_size)
        with self._precision.autocast():
            return self.ddp_network(obs, is_first, hidden)

    @property
    def rank_state_bytes(self) -> int:
        return self._hidden.numel() * self._hidden.element_size()

    def rank_state(self) -> dict[str, Any]:
        return {**super().rank_state(), "memory": self._hidden}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        super().load_rank_state(state)
        self._hidden.copy_(state["memory"])
