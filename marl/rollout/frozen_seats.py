"""Seats of the rollout that a network plays without learning from them: a past self, the team itself, or the policy
of a named player."""

from typing import Protocol

import torch

from arena.encoders import Encoder
from arena.rules import SNAKES, TURN
from marl.networks.actors import AnyActor
from marl.rollout.rollout import Rollout

PAST_SELVES = 4  # past selves that play at a time


class HasAct(Protocol):
    """The number format in which networks are called; see learners/precision.py."""

    def act(
        self, actor: AnyActor, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """An actor's outputs for observations, and its next hidden state."""


class FrozenSeats:
    """The seats, and the network that plays them. Weights that change in place count from the next turn on."""

    def __init__(
        self,
        actor: AnyActor,
        rollout: Rollout,
        seats: torch.Tensor,
        precision: HasAct,
        encoder: Encoder | None = None,
        greedy: bool = False,
    ) -> None:
        """Without `encoder`, the actor has the shape and the encoder of the team. Its actions are drawn; with `greedy`
        they are the likeliest ones.

        With the encoder of its own the actor is another player: it takes its likeliest actions, as `eval` lets it play.
        """
        self.actor = actor
        self._rollout, self._seats, self._precision = rollout, seats, precision
        self._encoder = encoder or rollout.encoder
        device = rollout.arena.device
        self._matches = seats.long() // SNAKES
        dtype = torch.int8 if self._encoder.low.dtype.kind == "i" else torch.uint8
        self._obs = torch.zeros(len(seats), self._encoder.width, dtype=dtype, device=device)
        self._outputs = torch.zeros(len(seats), actor.spec.outputs, device=device)
        orientations = self._encoder.orientations(self._obs)
        if encoder is None and not greedy:
            self._draw = rollout.bind_drawing(seats, orientations, self._outputs, torch.zeros(1, device=device))
        else:
            self._draw = rollout.bind_likeliest(seats, orientations, self._outputs)
        self.hidden = self.actor.initial_state(len(seats), device)

    def play(self) -> None:
        """Write the actions of these seats."""
        arena = self._rollout.arena
        obs = arena.observe(self._encoder.name, self._seats, out=self._obs)
        is_first = arena.state[:, TURN][self._matches] == 0
        outputs, hidden = self._precision.act(self.actor, obs, is_first, self.hidden)
        if hidden is not None:
            self.hidden.copy_(hidden)
        self._outputs.copy_(outputs)
        self._draw()
