"""Actors: observations [..., W] to outputs [..., 4 or 5], the logits of the local actions and maybe a value.

`step` plays one turn: obs [N, W], is_first [N] and hidden to outputs and the next hidden state. Feed-forward actors
have no hidden state: None.
"""

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.rules import ACTIONS, TEAM
from marl.networks.layers import MLP, CommLayer, dense
from marl.networks.lstm_pass import lstm_step, lstm_turns, may_run_kernels
from marl.networks.spec import NetworkSpec
from marl.networks.stems import DenseStem, make_stem

State = tuple[torch.Tensor, torch.Tensor]  # of an LSTM: h and c, [..., H] each


class _Trunk(nn.Module):
    """The first layer: stem, messages between mates, ReLU. With messages, obs are [..., 3 n, W]."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec, width = spec, spec.body[0]
        self.first = make_stem(encoder, spec)
        self.mates = CommLayer(width, width) if spec.messages else None

    def first_layer(self, obs: torch.Tensor) -> torch.Tensor:
        if self.mates is None and type(self.first) is DenseStem:
            return self.first(obs, relu=True)
        x = self.first(obs)
        if self.mates is not None:
            teams = x.view(*x.shape[:-2], -1, TEAM, x.shape[-1])
            x = self.mates(teams, F.relu(teams)).view(x.shape)
        return F.relu(x)


class Actor(_Trunk):
    """A feed-forward actor."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__(encoder, spec)
        self.tail = MLP(spec.body[0], spec.body[1:], spec.outputs, 0.01)
        enlarge_value_head(self.tail.head)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.tail(self.first_layer(obs))

    def initial_state(self, snakes: int, device: torch.device) -> None:
        """No hidden state."""

    def step(
        self,
        obs: torch.Tensor,
        is_first: torch.Tensor | None,
        hidden: torch.Tensor | None,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, None]:
        return self(obs), None


class RecurrentActor(_Trunk):
    """An actor with an LSTM: turns of snakes [T, N, W] to outputs [T, N, 4 or 5]. hidden: [2, N, H], h and c."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__(encoder, spec)
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(spec.body, spec.body[1:], strict=False))
        self.cell = nn.LSTMCell(spec.body[-1], spec.lstm_size)
        self.head = dense(spec.lstm_size, spec.outputs, 0.01)
        enlarge_value_head(self.head)

    def forward(self, obs: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """is_first [T, N]: where a match plays its first turn the hidden state is reset to zero."""
        x = self._body(obs)
        if may_run_kernels(x, self.spec.lstm_size):
            return self.head(lstm_turns(x, is_first, hidden, self.cell))
        state, outputs = (hidden[0], hidden[1]), []
        for turn in range(len(obs)):
            state = self._next_state(x[turn], is_first[turn], state)
            outputs.append(state[0])
        return self.head(torch.stack(outputs))

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor, out: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """out: where the next hidden state is written, maybe `hidden` itself."""
        x = self._body(obs)
        if not torch.is_grad_enabled() and may_run_kernels(x, self.spec.lstm_size):
            h, hidden = lstm_step(x, is_first, hidden, self.cell, out)
            return self.head(h), hidden
        state = self._next_state(x, is_first, (hidden[0], hidden[1]))
        return self.head(state[0]), torch.stack(state) if out is None else out.copy_(torch.stack(state))

    def initial_state(self, snakes: int, device: torch.device) -> torch.Tensor:
        """The hidden state at the start of a match."""
        return torch.zeros(2, snakes, self.spec.lstm_size, device=device)

    def _body(self, obs: torch.Tensor) -> torch.Tensor:
        x = self.first_layer(obs)
        for layer in self.layers:
            x = layer(x, relu=True)
        return x

    def _next_state(self, x: torch.Tensor, is_first: torch.Tensor, state: State) -> State:
        keep = (~is_first).to(x.dtype)[..., None]
        return self.cell(x, (state[0] * keep, state[1] * keep))


AnyActor = Actor | RecurrentActor


def make_actor(encoder: Encoder, spec: NetworkSpec) -> AnyActor:
    """The actor that a specification describes."""
    return RecurrentActor(encoder, spec) if spec.lstm_size else Actor(encoder, spec)


def enlarge_value_head(head: nn.Linear) -> None:
    """Undo the small initial gain for the value: actions begin nearly equal, the value at its usual size."""
    with torch.no_grad():
        head.weight[ACTIONS:] *= 100
