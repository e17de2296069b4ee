"""A policy: network, encoder and the choice of a move. As a player it takes the likeliest legal move."""

from typing import Any

import torch
from torch import nn

from arena import BatchArena
from arena.observe import F_DIRECTION, P_SCALARS, Encoder

# Where each encoder shows the own direction, one-hot: its opposite is the move that the game would replace.
DIRECTION_AT = {"features": F_DIRECTION, "planes": P_SCALARS}
BARRED = -1e9  # a logit that is never chosen, and whose gradient is 0


def legal(logits: torch.Tensor, rows: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """The logits [..., 4], in float, with the reversal ruled out; rows [..., W] are what the snakes see."""
    at = DIRECTION_AT[encoder.name]
    up, down, left, right = rows[..., at : at + 4].bool().unbind(-1)
    return logits.float().masked_fill(torch.stack((down, up, right, left), -1), BARRED)


class PolicyPlayer:
    """An actor that plays for a team; see opponents.players.Player."""

    def __init__(self, actor: nn.Module, encoder: Encoder, name: str) -> None:
        self.name = name
        self._actor = actor
        self._encoder = encoder

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Go where the matches are."""
        self._actor.to(arena.device)

    @torch.no_grad()
    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves of the seats into moves [B, 6]."""
        rows = arena.observe(self._encoder.name, seats)
        chosen = legal(self._actor(rows), rows, self._encoder).argmax(-1)
        moves.view(-1)[seats.long()] = chosen.to(moves.dtype)

    def close(self) -> None:
        """Nothing to give back."""


def about(encoder: Encoder, body: tuple[int, ...]) -> dict[str, Any]:
    """What must be known to build the actor again."""
    return {"encoder": encoder.name, "encoder_version": encoder.version, "body": list(body)}
