"""A policy: network, encoder and the choice of a move. As a player it takes the likeliest legal move."""

from dataclasses import asdict, fields
from typing import Any

import torch
from torch import nn

from arena import BatchArena
from arena.batch import encoder_named
from arena.encoders.observe import F_DIRECTION, P_SCALARS, Encoder
from arena.encoders.orientation import FORTH
from arena.rules import SNAKES, TURN
from marl.config.network_config import NetworkConfig
from marl.errors import UserError
from marl.networks.networks import MOVES, Shape, actor_of

# Where each encoder shows the own direction, one-hot: its opposite is the move that the game would replace.
DIRECTION_AT = {"features": F_DIRECTION, "turned": F_DIRECTION, "planes": P_SCALARS}
BARRED = -1e9  # a logit that is never chosen, and whose gradient is 0


def legal(logits: torch.Tensor, rows: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """The logits [..., 4], in float, with the reversal ruled out; rows [..., W] are what the snakes see."""
    at = DIRECTION_AT[encoder.name]
    up, down, left, right = rows[..., at : at + 4].bool().unbind(-1)
    return logits.float().masked_fill(torch.stack((down, up, right, left), -1), BARRED)


def on_board(logits: torch.Tensor, rows: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """Logits [N, 4] of moves in the frames in which snakes see the board, as those of moves on the board."""
    if encoder.frame_at is None:
        return logits
    return logits.gather(-1, torch.from_numpy(FORTH).to(rows.device)[encoder.frames(rows).long()])


class PolicyPlayer:
    """An actor that plays for a team; see opponents.players.Player."""

    def __init__(self, actor: nn.Module, encoder: Encoder, name: str) -> None:
        self.name, self.actor, self.encoder = name, actor, encoder
        self._memory = None  # of the matches, where the network has one

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Go where the matches are."""
        self.actor.to(arena.device)
        self._memory = self.actor.remember(len(seats), arena.device)

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves of the seats into moves [B, 6]."""
        logits, _, self._memory = self._ask(arena, seats)
        moves.view(-1)[seats.long()] = logits.argmax(-1).to(moves.dtype)

    def thoughts(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Probabilities of the moves [N, 4] in these seats, and what the network expects to gain [N] if it says so."""
        logits, values, _ = self._ask(arena, seats)
        return logits.softmax(-1), values

    @torch.no_grad()
    def _ask(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, Any]:
        rows = arena.observe(self.encoder.name, seats)
        begins = arena.state[seats.long() // SNAKES, TURN] == 0
        answers, memory = self.actor.step(rows, begins, self._memory)
        values = answers[:, MOVES] if answers.shape[-1] > MOVES else None
        logits = legal(answers[:, :MOVES], rows, self.encoder)
        return on_board(logits, rows, self.encoder), values, memory

    def close(self) -> None:
        """Nothing to give back."""


def shape_of(network: NetworkConfig, outputs: int, recurrent: bool = False) -> Shape:
    """The shape of the actor that a configuration asks for."""
    channels = network.channels if network.kind == "cnn" else ()
    return Shape(network.body, outputs, channels, network.messages, network.lstm_size if recurrent else 0)


def about(encoder: Encoder, shape: Shape) -> dict[str, Any]:
    """What must be known to build the actor again, ready for JSON."""
    return {"encoder": encoder.name, "encoder_version": encoder.version, **asdict(shape)}


def actor_from(about: dict[str, Any], weights: dict[str, torch.Tensor], where: str) -> tuple[nn.Module, Encoder]:
    """The actor that `about` describes, with these weights; `where` names them if they do not fit."""
    encoder = encoder_named(about.get("encoder"))
    if encoder.version != about.get("encoder_version"):
        raise UserError(
            f"{where} was trained on version {about.get('encoder_version')} of encoder {encoder.name}; "
            f"this program has version {encoder.version}: train again, or use the program it was trained with"
        )
    try:
        known = {field.name: about[field.name] for field in fields(Shape) if field.name in about}
        shape = Shape(**{name: tuple(v) if isinstance(v, (list, tuple)) else v for name, v in known.items()})
        actor = actor_of(encoder, shape)
        actor.load_state_dict(weights)
    except (RuntimeError, LookupError, TypeError, ValueError):
        raise UserError(f"{where}: its weights are not those of the network that it names") from None
    return actor.requires_grad_(False), encoder
