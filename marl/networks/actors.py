"""Actors: observations [..., W] to outputs [..., 4 or 5], the logits of the local actions and maybe a value.

`step` plays one turn: obs [N, W], is_first [N] and hidden to outputs and the next hidden state. Feed-forward actors
have no hidden state: None.
"""

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.rules import ACTIONS, TEAM
from marl.networks.layers import MLP, CommLayer, Head, dense
from marl.networks.spec import NetworkSpec
from marl.networks.stems import make_stem

State = tuple[torch.Tensor, torch.Tensor]  # of an LSTM: h and c, [..., H] each


class _Trunk(nn.Module):
    """The first layer: stem, messages between mates, ReLU. With messages, obs are [..., 3 n, W]."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec, width = spec, spec.body[0]
        self.first = make_stem(encoder, spec)
        self.mates = CommLayer(width, width) if spec.messages else None

    def first_layer(self, obs: torch.Tensor) -> torch.Tensor:
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
        self, obs: torch.Tensor, is_first: torch.Tensor | None, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, None]:
        return self(obs), None


class RecurrentActor(_Trunk):
    """An actor with an LSTM: turns of snakes [T, N, W] to outputs [T, N, 4 or 5]. hidden: [2, N, H], h and c."""

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__(encoder, spec)
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(spec.body, spec.body[1:], strict=False))
        self.cell = nn.LSTMCell(spec.body[-1], spec.lstm_size)
        self.head = Head(spec.lstm_size, spec.outputs, 0.01)
        enlarge_value_head(self.head)

    def forward(self, obs: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """is_first [T, N]: where a match plays its first turn the hidden state is reset to zero."""
        inputs = self._inputs(obs)  # of all turns at once
        state, outputs = (hidden[0], hidden[1]), []
        for turn_inputs, first in zip(inputs.unbind(), is_first.unbind(), strict=True):
            state = self._next_state(turn_inputs, first, state)
            outputs.append(state[0])
        return self.head(torch.stack(outputs))

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        state = self._next_state(self._inputs(obs), is_first, (hidden[0], hidden[1]))
        return self.head(state[0]), torch.stack(state)

    def initial_state(self, snakes: int, device: torch.device) -> torch.Tensor:
        """The hidden state at the start of a match."""
        return torch.zeros(2, snakes, self.spec.lstm_size, device=device)

    def _inputs(self, obs: torch.Tensor) -> torch.Tensor:
        """What the body adds to the LSTM's gates, [..., 4 H]."""
        x = self.first_layer(obs)
        for layer in self.layers:
            x = F.relu(layer(x))
        return F.linear(x, self.cell.weight_ih, self.cell.bias_ih)

    def _next_state(self, inputs: torch.Tensor, is_first: torch.Tensor, state: State) -> State:
        """An LSTM cell: input, forget and output gates and the new candidate, in torch's order."""
        keep = (~is_first).to(state[0].dtype)[..., None]
        h, c = state[0] * keep, state[1] * keep
        gates = (inputs + F.linear(h, self.cell.weight_hh, self.cell.bias_hh)).float()
        enter, forget, candidate, leave = gates.chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * c.tanh(), c


AnyActor = Actor | RecurrentActor


def make_actor(encoder: Encoder, spec: NetworkSpec) -> AnyActor:
    """The actor that a specification describes."""
    return RecurrentActor(encoder, spec) if spec.lstm_size else Actor(encoder, spec)


def enlarge_value_head(head: nn.Linear) -> None:
    """Undo the small initial gain for the value: actions begin nearly equal, the value at its usual size."""
    with torch.no_grad():
        head.weight[ACTIONS:] *= 100
