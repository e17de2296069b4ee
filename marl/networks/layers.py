"""Dense layers with the initial weights of this project: orthogonal, no bias."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn
from torch.nn import functional as F

ALIGNED = 8  # columns: matrix units read whole words
_is_loaded_next: ContextVar[bool] = ContextVar("is_loaded_next", default=False)


@contextmanager
def loaded_next() -> Iterator[None]:
    """Networks that are built in this block get no first weights. A champion's took 0.1 s, six times its loading."""
    token = _is_loaded_next.set(True)
    try:
        yield
    finally:
        _is_loaded_next.reset(token)


def set_orthogonal(weight: torch.Tensor, gain: float) -> None:
    """Set first weights. On the device meta there are none, and torch 2.11 would import its compiler to set them."""
    if not (weight.is_meta or _is_loaded_next.get()):
        nn.init.orthogonal_(weight, gain)


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    """A dense layer with orthogonal weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    set_orthogonal(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Head(nn.Linear):
    """The last layer, of few outputs: a GPU multiplies by columns of zeros, too, up to a multiple of eight.

    With four or five columns it takes five times as long.
    """

    def __init__(self, inputs: int, outputs: int, gain: float) -> None:
        super().__init__(inputs, outputs)
        set_orthogonal(self.weight, gain)
        nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        missing = -self.out_features % ALIGNED if x.is_cuda else 0
        if not missing:
            return F.linear(x, self.weight, self.bias)
        weight, bias = F.pad(self.weight, (0, 0, 0, missing)), F.pad(self.bias, (0, missing))
        return F.linear(x, weight, bias)[..., : self.out_features]


class MLP(nn.Module):
    """Hidden layers and a head. inputs and widths: of the hidden layers."""

    def __init__(self, inputs: int, widths: Sequence[int], outputs: int, head_gain: float) -> None:
        super().__init__()
        sizes = [inputs, *widths]
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(sizes, widths, strict=False))
        self.head = Head(sizes[-1], outputs, head_gain)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden = F.relu(layer(hidden))
        return self.head(hidden)


class CommLayer(nn.Module):
    """Adds to each snake's hidden layer [..., 3, H] a message: the sum of its mates' vectors, through a dense layer."""

    def __init__(self, inputs: int, width: int, gain: float = math.sqrt(2)) -> None:
        super().__init__()
        self.layer = dense(inputs, width, gain)

    def forward(self, hidden: torch.Tensor, sent: torch.Tensor) -> torch.Tensor:
        return hidden + self.layer(sent.sum(-2, keepdim=True) - sent)
