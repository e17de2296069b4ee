"""A policy as a player: it takes the likeliest legal action."""

from functools import partial
from typing import Any

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import Encoder
from arena.errors import printable
from arena.rules import ACTIONS, SNAKES, TURN
from marl.fast import blas
from marl.fast.dense_pass import DenseInference, proven_layers
from marl.fast.policy_kernels import choose_on_board
from marl.networks.actors import AnyActor
from marl.networks.policy import MASKED_LOGIT, build_actor, describe_actor, mask_reversal, reward_in, to_board_logits
from marl.rewards import RewardWeights


class PolicyPlayer:
    """An actor that plays for a team; see opponents.players.Player.

    reward: of its training, in which its values are; None if it is not known.
    """

    def __init__(self, actor: AnyActor, encoder: Encoder, name: str, reward: RewardWeights | None = None) -> None:
        self.name, self.actor, self.encoder = printable(name), actor, encoder  # a name may be that of a file
        self.reward = reward
        self._hidden: torch.Tensor | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What, beside the weights, makes this player again."""
        return describe_actor(self.encoder, self.actor.spec, self.reward)

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Move to the device of the matches."""
        self.actor.to(arena.device)
        self._hidden = self.actor.initial_state(len(seats), arena.device)

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the actions of the seats into moves [B, 6]."""
        logits, _, hidden = self._forward(arena, seats)
        if hidden is not None:
            self._hidden.copy_(hidden)
        moves.view(-1)[seats.long()] = logits.argmax(-1).to(moves.dtype)

    @property
    def is_compiled(self) -> bool:
        """Whether `bind_turn` has loops for a CPU: for dense networks on one thread."""
        return blas.is_usable() and proven_layers(self.actor, self.encoder) is not None

    def bind_turn(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> tuple[partial, ...]:
        """The same as `act`: as compiled loops on a CPU, none if there are no such; as one call on a GPU."""
        if arena.device.type == "cuda":
            return (partial(self.act, arena, seats, moves),)
        encoder = self.encoder
        dtype = torch.int8 if encoder.dtype is np.int8 else torch.uint8
        obs = torch.zeros(len(seats), encoder.width, dtype=dtype)
        outputs = torch.zeros(len(seats), self.actor.spec.outputs)
        turn = arena.bind_turn(encoder.name, seats, obs, moves)
        layers = proven_layers(self.actor, encoder) if blas.is_usable() else None
        if turn is None or layers is None:
            return ()
        infer = DenseInference(layers).bind(obs, outputs)
        at = encoder.direction_at, -1 if encoder.orientation_at is None else encoder.orientation_at
        arrays = seats.numpy(), moves.numpy()
        choose = partial(choose_on_board, outputs.numpy(), obs.numpy(), *at, np.float32(MASKED_LOGIT), *arrays)
        return turn.encode, *infer, choose

    def policy_outputs(self, arena: BatchArena, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Probabilities [N, 4] of the actions in these seats, and the values [N] if the network has a value head."""
        logits, values, _ = self._forward(arena, seats)
        return logits.softmax(-1), values

    @torch.no_grad()
    def _forward(
        self, arena: BatchArena, seats: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Logits of actions on the board, values, and the next hidden state."""
        obs = arena.observe(self.encoder.name, seats)
        is_first = arena.state[seats.long() // SNAKES, TURN] == 0
        outputs, hidden = self.actor.step(obs, is_first, self._hidden)
        values = outputs[:, ACTIONS] if outputs.shape[-1] > ACTIONS else None
        logits = mask_reversal(outputs[:, :ACTIONS], obs, self.encoder)
        return to_board_logits(logits, obs, self.encoder), values, hidden

    def close(self) -> None:
        """Nothing to release."""


def policy_player(about: dict[str, Any], weights: dict[str, torch.Tensor], where: str, name: str) -> PolicyPlayer:
    """The player of a description (see `about`) and weights; messages name `where` they are from."""
    return PolicyPlayer(*build_actor(about, weights, where), name, reward_in(about, where))
