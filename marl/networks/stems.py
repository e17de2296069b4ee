"""Stems: the first layer of a network, from an encoder's observation [..., W] to a hidden layer before its ReLU.

Observations come as small integers. They are brought to about [-1, 1] by scaling the weights, which is far less work
than scaling every observation. A stem is built as Stem(encoder, spec); marl.registry.NETWORKS names them.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import Encoder
from arena.encoders.planes import PLANES
from arena.rules import CELLS, COLUMNS, ROWS
from marl import registry
from marl.networks.layers import dense, set_orthogonal
from marl.networks.spec import NetworkSpec

KERNEL = 3  # cells across that a convolution sees


class DenseStem(nn.Module):
    """A dense layer that reads an encoder's integers."""

    scale: torch.Tensor

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.body[0], encoder.width))
        self.bias = nn.Parameter(torch.zeros(spec.body[0]))
        set_orthogonal(self.weight, math.sqrt(2))
        self.register_buffer("scale", torch.from_numpy(encoder.scale.copy()), persistent=False)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return F.linear(as_floats(obs, self.weight.dtype), self.weight * self.scale, self.bias)


class TorusConvStem(nn.Module):
    """Convolutions over the board of the `planes` encoder, a torus without edges, then a dense layer.

    Every convolution but the last keeps the size of the board, the last one keeps every second cell each way.
    """

    board_scale: torch.Tensor
    scalar_scale: torch.Tensor

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        scale, channels = torch.from_numpy(encoder.scale.copy()), spec.channels
        self.register_buffer("board_scale", scale[: PLANES * CELLS : CELLS].clone(), persistent=False)
        self.register_buffer("scalar_scale", scale[PLANES * CELLS :].clone(), persistent=False)
        sizes = [PLANES, *channels]
        # Weights [channels, cells around * channels before], as dense layers have them.
        self.convolutions = nn.ModuleList(dense(KERNEL**2 * a, b) for a, b in zip(sizes, channels, strict=False))
        scalars = encoder.width - PLANES * CELLS
        self.out = dense(channels[-1] * CELLS // 4 + scalars, spec.body[0])

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        obs, leading, size = as_floats(obs, self.out.weight.dtype), obs.shape[:-1], PLANES * CELLS
        # All that the convolutions see across the edges is added once, before the first of them.
        edge = [len(self.convolutions)] * 4
        board = F.pad(obs[..., :size].reshape(-1, PLANES, ROWS, COLUMNS), edge, mode="circular")
        scale = self.board_scale[:, None, None]
        layer: nn.Linear
        for i, layer in enumerate(self.convolutions):  # type: ignore[assignment]
            weight = layer.weight.view(layer.out_features, KERNEL, KERNEL, -1).permute(0, 3, 1, 2)
            stride = 2 if i == len(self.convolutions) - 1 else 1
            board = F.relu(F.conv2d(board, weight * scale if i == 0 else weight, layer.bias, stride))
        scalars = obs[..., size:] * self.scalar_scale
        board = board.permute(0, 2, 3, 1).reshape(*leading, -1)  # channels last, as the dense layer reads them
        return self.out(torch.cat((board, scalars.to(board.dtype)), -1))


def as_floats(obs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An encoder's bytes as floats of this type; floats, which a learner has cast already, as they are."""
    return obs if obs.is_floating_point() else obs.to(dtype)


def make_stem(encoder: Encoder, spec: NetworkSpec) -> nn.Module:
    """The stem that a specification names."""
    return registry.load(registry.NETWORKS, spec.stem)(encoder, spec)
