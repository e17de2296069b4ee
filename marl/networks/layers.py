"""Dense layers with the initial weights of this project: orthogonal, no bias."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from marl.compute.linear import linear


class Dense(nn.Linear):
    """A dense layer; with `relu` the ReLU behind it."""

    def forward(self, x: torch.Tensor, relu: bool = False) -> torch.Tensor:
        return linear(x, self.weight, self.bias, relu)


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> Dense:
    """A dense layer with orthogonal weights and zero bias."""
    layer = Dense(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class MLP(nn.Module):
    """Hidden layers and a head. inputs and widths: of the hidden layers."""

    def __init__(self, inputs: int, widths: Sequence[int], outputs: int, head_gain: float) -> None:
        super().__init__()
        sizes = [inputs, *widths]
        self.layers = nn.ModuleList(dense(a, b) for a, b in zip(sizes, widths, strict=False))
        self.head = dense(sizes[-1], outputs, head_gain)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden = layer(hidden, relu=True)
        return self.head(hidden)


class CommLayer(nn.Module):
    """Adds to each snake's hidden layer [..., 3, H] a message: the sum of its mates' vectors, through a dense layer."""

    def __init__(self, inputs: int, width: int, gain: float = math.sqrt(2)) -> None:
        super().__init__()
        self.layer = dense(inputs, width, gain)

    def forward(self, hidden: torch.Tensor, sent: torch.Tensor) -> torch.Tensor:
        return hidden + self.layer(sent.sum(-2, keepdim=True) - sent)
