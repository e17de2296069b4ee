"""Seats of the rollout that a network plays without learning from them: a past self, or the team itself."""

import torch

from arena.rules import SNAKES, TURN
from marl.compute.precision import Precision
from marl.networks.actors import AnyActor
from marl.rollout.rollout import Rollout

PAST_SELVES = 4  # past selves that play at a time


class FrozenSeats:
    """The seats, and the network that plays them. Weights that change in place count from the next turn on."""

    def __init__(self, actor: AnyActor, rollout: Rollout, seats: torch.Tensor, precision: Precision) -> None:
        self.actor = actor
        self._rollout, self._seats, self._precision = rollout, seats, precision
        device = rollout.arena.device
        self._matches = seats.long() // SNAKES
        self._obs = torch.zeros(len(seats), rollout.encoder.width, dtype=rollout.obs.dtype, device=device)
        self._outputs = torch.zeros(len(seats), rollout.outputs.shape[1], device=device)
        orientations = rollout.encoder.orientations(self._obs)
        self._draw = rollout.bind_drawing(seats, orientations, self._outputs, torch.zeros(1, device=device))
        self.hidden = self.actor.initial_state(len(seats), device)

    def play(self) -> None:
        """Write the actions of these seats."""
        arena, encoder = self._rollout.arena, self._rollout.encoder
        obs = arena.observe(encoder.name, self._seats, out=self._obs)
        is_first = arena.state[:, TURN][self._matches] == 0
        outputs, hidden = self._precision.act(self.actor, obs, is_first, self.hidden)
        if hidden is not None:
            self.hidden.copy_(hidden)
        self._outputs.copy_(outputs)
        self._draw()
