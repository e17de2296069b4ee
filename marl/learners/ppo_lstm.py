"""PPO with an LSTM: hidden states are carried through a match, and whole teams with all their turns are shuffled."""

from typing import Any

import torch

from arena.rules import ACTIONS, TEAM
from marl.learners.ppo import Ppo


class PpoLstm(Ppo):
    """Ppo whose network has a hidden state [2, N, H]."""

    recurrent = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        buffer = self.buffer
        self._hidden = self.actor.initial_state(buffer.teams * TEAM, buffer.device)
        self._first_hidden = self._hidden.clone()  # at the start of the round
        self._played = 0  # turns of the round, counted in Python: a graph holds a whole round
        self._turn_starts = torch.arange(self.turns, device=buffer.device)[:, None] * buffer.teams
        self._is_first = torch.zeros(self.turns, buffer.teams, dtype=torch.bool, device=buffer.device)

    def _items(self) -> tuple[int, int]:
        """Teams, with all their turns."""
        return self.buffer.teams, self.buffer.turns

    def begin_round(self) -> None:
        self._first_hidden.copy_(self._hidden)
        self._played = 0

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Outputs; the hidden states go on by one turn."""
        self._is_first[self._played % self.turns] = self._rollout.is_first()
        outputs, hidden = self._next(obs)
        self._hidden.copy_(hidden)
        self._played += 1
        return outputs

    def last_values(self) -> torch.Tensor:
        return self._next(self._rollout.observe())[0][:, ACTIONS].float()

    def _next(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        is_first = self._rollout.is_first().repeat_interleave(TEAM)
        return self.precision.act(self.network, obs, is_first, self._hidden)

    def rows_of(self, items: torch.Tensor) -> torch.Tensor:
        return (self._turn_starts + items).flatten()  # turn after turn of all teams

    def outputs_for(self, items: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """Outputs [T, 3 n, 5] for n teams with all their turns, from their first hidden states on."""
        obs = obs.view(self.turns, -1, obs.shape[-1])
        is_first = self._is_first[:, items].repeat_interleave(TEAM, -1)
        hidden = self._first_hidden.view(2, self.buffer.teams, TEAM, -1)[:, items].flatten(1, 2)
        return self.ddp_network(obs, is_first, hidden)

    @property
    def rank_state_bytes(self) -> int:
        return self._hidden.numel() * self._hidden.element_size()

    def rank_state(self) -> dict[str, Any]:
        return {**super().rank_state(), "memory": self._hidden}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        super().load_rank_state(state)
        self._hidden.copy_(state["memory"])
