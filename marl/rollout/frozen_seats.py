"""Seats of the rollout that nobody learns from: a network plays them (a past self, the team itself, the policy of a
named player), or a player of the host (a submission in its processes, a policy that plans)."""

from typing import Protocol

import torch

from arena import BatchArena
from arena.encoders import Encoder
from arena.rules import SNAKES, TURN
from marl.errors import UserError
from marl.networks.actors import AnyActor
from marl.rollout.rollout import Rollout
from opponents.players import Player
from opponents.submission import Submission

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


class HostSeats:
    """The seats, and the player. It sees an arena with only its own matches, which is copied before each turn.

    It decides outside the batch's loops, so a turn that it plays in cannot be recorded in a CUDA graph.
    """

    hidden = None  # what such a player remembers is not saved

    def __init__(self, player: Player, rollout: Rollout, seats: torch.Tensor) -> None:
        self.player, self._rollout = player, rollout
        arena, self._seats = rollout.arena, seats.long()
        self._slots = (self._seats // SNAKES).unique()
        self._arena = BatchArena(len(self._slots), arena.device, arena.seed)
        own = torch.searchsorted(self._slots, self._seats // SNAKES) * SNAKES + self._seats % SNAKES
        self._own_seats = own.int()
        self._moves = torch.zeros(len(self._slots), SNAKES, dtype=torch.int8, device=arena.device)
        self._has_begun = False

    def play(self) -> None:
        """Write the actions of these seats."""
        arena, own = self._rollout.arena, self._arena
        for mine, all_of in ((own.state, arena.state), (own.keys, arena.keys), (own.numbers, arena.numbers)):
            mine.copy_(all_of[self._slots])
        if not self._has_begun:
            self._begin()
        self.player.act(own, self._own_seats, self._moves)
        self._rollout.board_actions.view(-1)[self._seats] = self._moves.view(-1)[self._own_seats.long()]

    def _begin(self) -> None:
        player = self.player
        player.begin(self._arena, self._own_seats)
        self._has_begun = True
        if isinstance(player, Submission) and len(player.forfeited) == len(self._slots):
            raise UserError(f"opponents: {player.problems[0]}")  # else training would meet random moves
