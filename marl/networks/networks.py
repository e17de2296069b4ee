"""Networks: bodies over an encoder's bytes; an actor on one, critics on others.

M = turns, 3 = the team's snakes, W = width of an observation. Rows come as the encoder's small integers; they are
brought to about [-1, 1] by scaling the first layer's weights, which is far less work than scaling every row.

An actor answers with the logits of the four moves, and if it is asked for five outputs with a value as well. `step` is
how one plays: with a memory, which most have not, of what was seen in the match before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders.observe import PLANES, Encoder
from arena.rules import COLUMNS, ROWS, TEAM
from marl.compute.linear import linear

MOVES = 4
KERNEL = 3  # cells across that a convolution sees


@dataclass(frozen=True)
class Shape:
    """All that must be known of an actor to build it again."""

    body: tuple[int, ...]
    outputs: int = MOVES
    channels: tuple[int, ...] = ()  # of convolutions before the body
    messages: bool = False  # mates tell each other what they see
    memory: int = 0  # width of the LSTM behind the body


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
        return linear(rows, self.weight * self.scale, self.bias)


class Dense(nn.Linear):
    """A dense layer."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return linear(rows, self.weight, self.bias)


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> Dense:
    """A layer with orthogonal weights and no bias at first."""
    layer = Dense(inputs, outputs)
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


class TorusReader(nn.Module):
    """Convolutions over the board of the `planes` encoder, which has no edge, then a dense layer.

    Each layer gathers the cells around every cell by a table and is one matrix product; every layer but the last keeps
    the size of the board, the last one keeps every second cell each way.
    """

    def __init__(self, encoder: Encoder, channels: Sequence[int], width: int) -> None:
        super().__init__()
        scale = torch.from_numpy(encoder.scale.copy())
        self.cells = ROWS * COLUMNS
        self.planes = PLANES
        self.register_buffer("board_scale", scale[: self.planes * self.cells : self.cells].clone(), persistent=False)
        self.register_buffer("scalar_scale", scale[self.planes * self.cells :].clone(), persistent=False)
        sizes = [self.planes, *channels]
        self.convolutions = nn.ModuleList(dense(KERNEL**2 * a, b) for a, b in zip(sizes, channels, strict=False))
        for i in range(len(channels)):
            stride = 2 if i == len(channels) - 1 else 1
            self.register_buffer(f"around{i}", _around(stride), persistent=False)
        scalars = encoder.width - self.planes * self.cells
        self.out = dense(channels[-1] * self.cells // 4 + scalars, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not rows.is_floating_point():
            rows = rows.to(self.out.weight.dtype)
        ahead, size = rows.shape[:-1], self.planes * self.cells
        board = rows[..., :size].reshape(-1, self.planes, self.cells).mT * self.board_scale.to(rows.dtype)
        for i, layer in enumerate(self.convolutions):
            around = getattr(self, f"around{i}")
            seen = board.index_select(1, around.flatten()).view(len(board), len(around), -1)
            board = F.relu(layer(seen))
        scalars = rows[..., size:] * self.scalar_scale.to(rows.dtype)
        return self.out(torch.cat((board.reshape(*ahead, -1), scalars.to(board.dtype)), -1))


def _around(stride: int) -> torch.Tensor:
    """For every kept cell of the board the cells around it, itself among them, across the edges."""
    reach = range(-(KERNEL // 2), KERNEL // 2 + 1)
    return torch.tensor(
        [
            [(row + i) % ROWS * COLUMNS + (column + j) % COLUMNS for i in reach for j in reach]
            for row in range(0, ROWS, stride)
            for column in range(0, COLUMNS, stride)
        ]
    )


def reader(encoder: Encoder, channels: Sequence[int], width: int) -> nn.Module:
    """What turns an observation into the body's first hidden layer, before its ReLU."""
    return TorusReader(encoder, channels, width) if channels else FirstLayer(encoder, width)


class Messages(nn.Module):
    """Adds to each snake's hidden layer [..., 3, H] what its mates tell it."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.layer = dense(inputs, width)

    def forward(self, hidden: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        return hidden + self.layer(told.sum(-2, keepdim=True) - told)


class Body(nn.Module):
    """Observations [..., W] to the hidden layer behind the first one; with messages, [..., 3, W]."""

    def __init__(self, encoder: Encoder, shape: Shape) -> None:
        super().__init__()
        self.shape, width = shape, shape.body[0]
        self.first = reader(encoder, shape.channels, width)
        self.mates = Messages(width, width) if shape.messages else None

    def hidden(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        if self.mates is not None:
            teams = hidden.view(*hidden.shape[:-2], -1, TEAM, hidden.shape[-1])
            hidden = self.mates(teams, F.relu(teams)).view(hidden.shape)
        return F.relu(hidden)


class Actor(Body):
    """Observations [..., W] to the answer [..., 4 or 5]."""

    def __init__(self, encoder: Encoder, shape: Shape) -> None:
        super().__init__(encoder, shape)
        self.tail = Tail(shape.body[0], shape.body[1:], shape.outputs, 0.01)
        scale_value(self.tail.head)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.tail(self.hidden(rows))

    def remember(self, snakes: int, device: torch.device) -> None:
        """Nothing."""

    def step(self, rows: torch.Tensor, begins: torch.Tensor | None, memory: None) -> tuple[torch.Tensor, None]:
        return self(rows), None


class RecurrentActor(Body):
    """Turns of snakes [T, N, W] to answers [T, N, 4 or 5], one turn after the other through an LSTM."""

    def __init__(self, encoder: Encoder, shape: Shape) -> None:
        super().__init__(encoder, shape)
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(shape.body, shape.body[1:], strict=False))
        self.cell = nn.LSTMCell(shape.body[-1], shape.memory)
        self.head = dense(shape.memory, shape.outputs, 0.01)
        scale_value(self.head)
        self.memory = shape.memory

    def forward(self, rows: torch.Tensor, begins: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """`begins` [T, N] says where a match plays its first turn: nothing is remembered from before it."""
        seen = self._seen(rows)
        state, told = (memory[0], memory[1]), []
        for turn in range(len(rows)):
            state = self._next(seen[turn], begins[turn], state)
            told.append(state[0])
        return self.head(torch.stack(told))

    def step(self, rows: torch.Tensor, begins: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One turn: snakes [N, W], begins [N] and memory [2, N, H] to answers and the memory from then on."""
        state = self._next(self._seen(rows), begins, (memory[0], memory[1]))
        return self.head(state[0]), torch.stack(state)

    def remember(self, snakes: int, device: torch.device) -> torch.Tensor:
        """The memory of a match that begins."""
        return torch.zeros(2, snakes, self.memory, device=device)

    def _seen(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.hidden(rows)
        for layer in self.layers:
            hidden = F.relu(layer(hidden))
        return hidden

    def _next(
        self, seen: torch.Tensor, begins: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        goes_on = (~begins).to(seen.dtype)[:, None]
        return self.cell(seen, (state[0] * goes_on, state[1] * goes_on))


def actor_of(encoder: Encoder, shape: Shape) -> Actor | RecurrentActor:
    """An actor of this shape."""
    return RecurrentActor(encoder, shape) if shape.memory else Actor(encoder, shape)


def scale_value(head: nn.Linear) -> None:
    """Moves begin nearly equal; a value among the outputs begins as large as any."""
    with torch.no_grad():
        head.weight[MOVES:] *= 100


class Critic(nn.Module):
    """Observations [M, 3, W] and the snakes' moves as shares [M, 3, 4] to values.

    Form `heads`: [M, 3, 4], one value for each of the own moves. Form `joined`: [M, 3, 1], the value of the own shares,
    which join the hidden layer. With `team`, a snake's value also rests on its mates' observations and moves.
    """

    def __init__(self, encoder: Encoder, shape: Shape, form: str, team: bool) -> None:
        super().__init__()
        body = shape.body
        self.first = reader(encoder, shape.channels, body[0])
        self.mates = Messages(body[0] + MOVES, body[0]) if team else None
        self.joined = form == "joined"
        self.tail = Tail(body[0] + MOVES * self.joined, body[1:], 1 if self.joined else MOVES, 1.0)

    def forward(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        if self.mates is not None:
            hidden = self.mates(hidden, torch.cat((hidden, shares.to(hidden.dtype)), -1))
        hidden = F.relu(hidden)
        if self.joined:
            hidden = torch.cat((hidden, shares.to(hidden.dtype)), -1)
        return self.tail(hidden)


class Critics(nn.Module):
    """One critic or two, as one module: [K, M, 3, 4 or 1]."""

    def __init__(self, count: int, encoder: Encoder, shape: Shape, form: str, team: bool) -> None:
        super().__init__()
        self.each = nn.ModuleList(Critic(encoder, shape, form, team) for _ in range(count))

    def forward(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return torch.stack([critic(rows, shares) for critic in self.each])


def value_of(values: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """What a critic's answer [..., 4 or 1] says of the shares [..., 4] that it was asked about: [...]."""
    return values.squeeze(-1) if values.shape[-1] == 1 else (values * shares).sum(-1)


def lowest(values: torch.Tensor) -> torch.Tensor:
    """The lowest of the critics' values [K, ...]; of one critic its own, without asking the device to compare."""
    return values[0] if len(values) == 1 else values.amin(0)
