"""A policy: network, encoder and the choice of a move. As a player it takes the likeliest legal move."""

from typing import Any

import torch
from torch import nn

from arena import BatchArena
from arena.observe import F_DIRECTION, P_SCALARS, Encoder
from marl.networks import MOVES

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
        self.name, self.actor, self.encoder = name, actor, encoder

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Go where the matches are."""
        self.actor.to(arena.device)

    @torch.no_grad()
    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves of the seats into moves [B, 6]."""
        rows = arena.observe(self.encoder.name, seats)
        chosen = legal(self.actor(rows)[..., :MOVES], rows, self.encoder).argmax(-1)
        moves.view(-1)[seats.long()] = chosen.to(moves.dtype)

    @torch.no_grad()
    def thoughts(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Probabilities of the moves [N, 4] in these seats, and what the network expects to gain [N] if it says so."""
        rows = arena.observe(self.encoder.name, seats)
        answer = self.actor(rows)
        probabilities = legal(answer[..., :MOVES], rows, self.encoder).softmax(-1)
        return probabilities, answer[..., MOVES] if answer.shape[-1] > MOVES else None

    def close(self) -> None:
        """Nothing to give back."""


def about(encoder: Encoder, body: tuple[int, ...]) -> dict[str, Any]:
    """What must be known to build the actor again."""
    return {"encoder": encoder.name, "encoder_version": encoder.version, "body": list(body)}
