"""Seats of the rollout that a player of the host plays: a submission in its processes, or a policy that plans.

Such a player decides outside the batch's loops, so a turn that it plays in cannot be recorded in a CUDA graph.
"""

import torch

from arena import BatchArena
from arena.rules import SNAKES
from marl.errors import UserError
from marl.rollout.rollout import Rollout
from opponents.players import Player
from opponents.submission import Submission


class HostSeats:
    """The seats, and the player. It sees an arena with only its own matches, which is copied before each turn."""

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
