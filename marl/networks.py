"""Networks: dense bodies over an encoder's bytes; an actor on one, critics on others.

M = turns, 3 = the team's snakes, W = width of an observation. Rows come as the encoder's small integers; they are
brought to about [-1, 1] by scaling the first layer's weights, which is far less work than scaling every row.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from arena.observe import Encoder

MOVES = 4


class FirstLayer(nn.Module):
    """A dense layer that reads an encoder's integers."""

    def __init__(self, encoder: Encoder, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, encoder.width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.orthogonal_(self.weight, math.sqrt(2))
        self.register_buffer("scale", torch.from_numpy(encoder.scale.copy()), persistent=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not rows.is_floating_point():
            rows = rows.to(self.weight.dtype)
        return F.linear(rows, self.weight * self.scale, self.bias)


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    """A layer with orthogonal weights and no bias at first."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Tail(nn.Module):
    """What follows the first layer: the rest of the body, and the head."""

    def __init__(self, inputs: int, body: Sequence[int], outputs: int, gain: float) -> None:
        super().__init__()
        widths = [inputs, *body]
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(widths, body, strict=False))
        self.head = dense(widths[-1], outputs, gain)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden = F.relu(layer(hidden))
        return self.head(hidden)


class Actor(nn.Module):
    """Observations [..., W] to the logits of the four moves [..., 4]."""

    def __init__(self, encoder: Encoder, body: Sequence[int]) -> None:
        super().__init__()
        self.first = FirstLayer(encoder, body[0])
        self.tail = Tail(body[0], body[1:], MOVES, 0.01)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.tail(F.relu(self.first(rows)))


class Critic(nn.Module):
    """Observations [M, 3, W] and the snakes' moves as shares [M, 3, 4] to values.

    Form `heads`: [M, 3, 4], one value for each of the own moves. Form `joined`: [M, 3, 1], the value of the own shares,
    which join the hidden layer. With `team`, a snake's value also rests on its mates' observations and moves.
    """

    def __init__(self, encoder: Encoder, body: Sequence[int], form: str, team: bool) -> None:
        super().__init__()
        self.first = FirstLayer(encoder, body[0])
        self.mates = dense(body[0] + MOVES, body[0]) if team else None
        self.joined = form == "joined"
        self.tail = Tail(body[0] + MOVES * self.joined, body[1:], 1 if self.joined else MOVES, 1.0)

    def forward(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        if self.mates is not None:
            seen = torch.cat((hidden, shares.to(hidden.dtype)), -1)
            hidden = hidden + self.mates(seen.sum(-2, keepdim=True) - seen)
        hidden = F.relu(hidden)
        if self.joined:
            hidden = torch.cat((hidden, shares.to(hidden.dtype)), -1)
        return self.tail(hidden)


class Critics(nn.Module):
    """One critic or two, as one module: [K, M, 3, 4 or 1]."""

    def __init__(self, count: int, encoder: Encoder, body: Sequence[int], form: str, team: bool) -> None:
        super().__init__()
        self.each = nn.ModuleList(Critic(encoder, body, form, team) for _ in range(count))

    def forward(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return torch.stack([critic(rows, shares) for critic in self.each])


def value_of(values: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """What a critic's answer [..., 4 or 1] says of the shares [..., 4] that it was asked about: [...]."""
    return values.squeeze(-1) if values.shape[-1] == 1 else (values * shares).sum(-1)


def lowest(values: torch.Tensor) -> torch.Tensor:
    """The lowest of the critics' values [K, ...]; of one critic its own, without asking the device to compare."""
    return values[0] if len(values) == 1 else values.amin(0)
