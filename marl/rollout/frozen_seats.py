"""A place in the rollout where a network plays that does not learn from it: a past self, or the team itself."""

import torch
from torch import nn

from arena.rules import SNAKES, TURN
from marl.compute.precision import Precision
from marl.rollout.rollout import Rollout

PLACES = 4  # past selves that play at a time


class Place:
    """The seats, and the network that draws their moves. Weights that change in place count from then on."""

    def __init__(self, actor: nn.Module, rollout: Rollout, seats: torch.Tensor, precision: Precision) -> None:
        self.actor = actor
        self._rollout, self._seats, self._precision = rollout, seats, precision
        device = rollout.arena.device
        self._matches = seats.long() // SNAKES
        self._rows = torch.zeros(len(seats), rollout.encoder.width, dtype=rollout.rows.dtype, device=device)
        self._answers = torch.zeros(len(seats), rollout.answers.shape[1], device=device)
        frames = rollout.encoder.frames(self._rows)
        self._draw = rollout.drawing(seats, frames, self._answers, torch.zeros(1, device=device))
        self.memory = self.actor.remember(len(seats), device)

    def play(self) -> None:
        """Write the moves of these seats."""
        arena, encoder = self._rollout.arena, self._rollout.encoder
        rows = arena.observe(encoder.name, self._seats, out=self._rows)
        begins = arena.state[:, TURN][self._matches] == 0
        answers, memory = self._precision.step_of(self.actor, rows, begins, self.memory)
        if memory is not None:
            self.memory.copy_(memory)
        self._answers.copy_(answers)
        self._draw()
