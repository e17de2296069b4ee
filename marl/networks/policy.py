"""Policies: an actor with its encoder and the choice of an action. As a player it takes the likeliest legal action."""

from dataclasses import asdict
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import Encoder, encoder_named
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.printable import printable
from arena.rules import ACTIONS, CELLS, SNAKES, TURN
from marl.compute import blas
from marl.errors import UserError
from marl.networks.actors import AnyActor, make_actor
from marl.networks.dense_pass import DenseInference, dense_layers
from marl.networks.policy_kernels import choose_likeliest
from marl.networks.spec import NetworkSpec, spec_from_dict

MASKED_LOGIT = -1e9  # never chosen, and its gradient is 0


def mask_reversal(logits: torch.Tensor, obs: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """The logits [..., 4] of local actions, in float, with the reversal masked; obs [..., W]."""
    at = encoder.direction_at
    up, down, left, right = obs[..., at : at + 4].bool().unbind(-1)
    return logits.float().masked_fill(torch.stack((down, up, right, left), -1), MASKED_LOGIT)


@cache
def local_actions(device: torch.device) -> torch.Tensor:
    """LOCAL_ACTIONS on a device, copied once: a CUDA graph cannot record a copy from the host."""
    return torch.from_numpy(LOCAL_ACTIONS).to(device)


def to_board_logits(logits: torch.Tensor, obs: torch.Tensor, encoder: Encoder) -> torch.Tensor:
    """Logits [N, 4] of local actions as those of actions on the board."""
    if encoder.orientation_at is None:
        return logits
    return logits.gather(-1, local_actions(obs.device)[encoder.orientations(obs).long()])


class PolicyPlayer:
    """An actor that plays for a team; see opponents.players.Player."""

    def __init__(self, actor: AnyActor, encoder: Encoder, name: str) -> None:
        self.name, self.actor, self.encoder = printable(name), actor, encoder  # a name may be that of a file
        self._hidden: torch.Tensor | None = None

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Move to the device of the matches."""
        self.actor.to(arena.device)
        self._hidden = self.actor.initial_state(len(seats), arena.device)

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the actions of the seats into moves [B, 6]."""
        logits, _ = self._forward(arena, seats, self._hidden)
        moves.view(-1)[seats.long()] = logits.argmax(-1).to(moves.dtype)

    @property
    def is_compiled(self) -> bool:
        """Whether `bind_turn` has loops for a CPU: for dense networks on one thread."""
        return blas.is_usable() and dense_layers(self.actor) is not None

    def bind_turn(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> tuple[partial, ...]:
        """The same as `act`: as compiled loops on a CPU, none if there are no such; as one call on a GPU."""
        if arena.device.type == "cuda":
            return (partial(self.act, arena, seats, moves),)
        encoder = self.encoder
        dtype = torch.int8 if encoder.dtype is np.int8 else torch.uint8
        obs = torch.zeros(len(seats), encoder.width, dtype=dtype)
        outputs = torch.zeros(len(seats), self.actor.spec.outputs)
        turn = arena.bind_turn(encoder.name, seats, obs, moves)
        if turn is None or not self.is_compiled:
            return ()
        infer = DenseInference(dense_layers(self.actor)).bind(obs, outputs)
        at = encoder.direction_at, -1 if encoder.orientation_at is None else encoder.orientation_at
        arrays = seats.numpy(), moves.numpy()
        choose = partial(choose_likeliest, outputs.numpy(), obs.numpy(), *at, np.float32(MASKED_LOGIT), *arrays)
        return turn.encode, *infer, choose

    def policy_outputs(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Probabilities [N, 4] of the actions in these seats, and the values [N] if the network has a value head."""
        logits, values = self._forward(arena, seats)
        return logits.softmax(-1), values

    @torch.no_grad()
    def _forward(
        self, arena: BatchArena, seats: torch.Tensor, out: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Logits of actions on the board, and values. out: where the next hidden state is written, if there is one."""
        obs = arena.observe(self.encoder.name, seats)
        is_first = arena.state[seats.long() // SNAKES, TURN] == 0
        outputs, _ = self.actor.step(obs, is_first, self._hidden, out)
        values = outputs[:, ACTIONS] if outputs.shape[-1] > ACTIONS else None
        logits = mask_reversal(outputs[:, :ACTIONS], obs, self.encoder)
        return to_board_logits(logits, obs, self.encoder), values

    def close(self) -> None:
        """Nothing to release."""


def describe_actor(encoder: Encoder, spec: NetworkSpec) -> dict[str, Any]:
    """All that is needed to build the actor again, ready for JSON."""
    return {"encoder": encoder.name, "encoder_version": encoder.version, **asdict(spec)}


def _check_sizes(spec: NetworkSpec, weights: dict[str, torch.Tensor]) -> None:
    """ValueError for sizes that the weights do not have: a damaged file may name a network that fills the memory."""
    sizes = {size for tensor in weights.values() if tensor.numel() for size in tensor.shape}
    channels = () if spec.stem == "mlp" else spec.channels
    named = (*spec.body, *channels, *([spec.lstm_size] if spec.lstm_size else []))
    total = sum(tensor.numel() for tensor in weights.values())
    fits = all(type(size) is int and size in sizes for size in named) and len(named) <= len(weights)
    pairs = [*pairwise(spec.body), *pairwise(channels)]
    if spec.stem == "cnn":  # its dense layer sees every second cell each way
        pairs.append((channels[-1] * CELLS // 4, spec.body[0]))
    if not fits or any(a * b > total for a, b in pairs):
        raise ValueError("other sizes than those of the weights")
    if spec.outputs not in (ACTIONS, ACTIONS + 1):
        raise ValueError("no outputs of a policy")


def build_actor(description: dict[str, Any], weights: dict[str, torch.Tensor], where: str) -> tuple[AnyActor, Encoder]:
    """The actor of a description, with these weights; messages name `where` they are from."""
    encoder = encoder_named(description.get("encoder"))
    if encoder.version != description.get("encoder_version"):
        raise UserError(
            f"{where} was trained on version {description.get('encoder_version')} of encoder {encoder.name}; "
            f"this program has version {encoder.version}: train again, or use the program it was trained with"
        )
    try:
        spec = spec_from_dict(description)
        _check_sizes(spec, weights)
        with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and replaced: the caller's draws stay
            actor = make_actor(encoder, spec)
        actor.load_state_dict(weights)
    except Exception:  # of any kind that a description by a stranger brings about
        raise UserError(f"{where}: its weights are not those of the network that it names") from None
    return actor.requires_grad_(False), encoder
