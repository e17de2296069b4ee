"""Stems: the first layer of a network, from an encoder's observation [..., W] to a hidden layer before its ReLU.

Observations come as small integers. They are brought to about [-1, 1] by scaling the weights, which is far less work
than scaling every observation. A stem is built as Stem(encoder, spec); marl.registry.NETWORKS names them.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from arena.encoders import PACKINGS, Encoder, Packing
from arena.encoders.planes import PLANES
from arena.rules import CELLS, COLUMNS, ROWS
from marl import registry
from marl.compute.linear import linear
from marl.compute.precision import Precision
from marl.compute.triton_kernels import triton_problem
from marl.config.network_config import NetworkConfig
from marl.networks.layers import dense
from marl.networks.packed_rows import unpack_on_gpu
from marl.networks.spec import NetworkSpec

KERNEL = 3  # cells across that a convolution sees


class DenseStem(nn.Module):
    """A dense layer that reads an encoder's integers, as plain rows or as packed ones (arena/encoders/packed.py)."""

    scale: torch.Tensor

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.body[0], encoder.width))
        self.bias = nn.Parameter(torch.zeros(spec.body[0]))
        nn.init.orthogonal_(self.weight, math.sqrt(2))
        self.register_buffer("scale", torch.from_numpy(encoder.scale.copy()), persistent=False)
        packing = PACKINGS.get(encoder.name)
        self._packing = packing if packing is not None and packing.plain is encoder else None

    def forward(self, obs: torch.Tensor, relu: bool = False) -> torch.Tensor:
        """The hidden layer; with `relu` the ReLU of it."""
        if self._packing is not None and obs.shape[-1] == self._packing.packed.width:
            if obs.is_cuda and not obs.is_floating_point():
                rows = unpack_on_gpu(obs.reshape(-1, obs.shape[-1]), self._packing)
                return linear(rows, self.weight * self.scale, self.bias, relu).view(*obs.shape[:-1], -1)
            # A learner may have widened packed rows as if they were plain; bytes are exact in every format.
            obs = self._packing.unpack(obs.to(torch.int16))
        if not obs.is_floating_point():
            obs = obs.to(self.weight.dtype)
        return linear(obs, self.weight * self.scale, self.bias, relu)


class TorusConvStem(nn.Module):
    """Convolutions over the board of the `planes` encoder, a torus without edges, then a dense layer.

    Each layer gathers the cells around every cell by a table and is one matrix product; every layer but the last keeps
    the size of the board, the last one keeps every second cell each way.
    """

    board_scale: torch.Tensor
    scalar_scale: torch.Tensor

    def __init__(self, encoder: Encoder, spec: NetworkSpec) -> None:
        super().__init__()
        scale, channels = torch.from_numpy(encoder.scale.copy()), spec.channels
        self.register_buffer("board_scale", scale[: PLANES * CELLS : CELLS].clone(), persistent=False)
        self.register_buffer("scalar_scale", scale[PLANES * CELLS :].clone(), persistent=False)
        sizes = [PLANES, *channels]
        self.convolutions = nn.ModuleList(dense(KERNEL**2 * a, b) for a, b in zip(sizes, channels, strict=False))
        for i in range(len(channels)):
            stride = 2 if i == len(channels) - 1 else 1
            self.register_buffer(f"around{i}", _neighbourhoods(stride), persistent=False)
        scalars = encoder.width - PLANES * CELLS
        self.out = dense(channels[-1] * CELLS // 4 + scalars, spec.body[0])

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if not obs.is_floating_point():
            obs = obs.to(self.out.weight.dtype)
        leading, size = obs.shape[:-1], PLANES * CELLS
        board = obs[..., :size].reshape(-1, PLANES, CELLS).mT * self.board_scale.to(obs.dtype)
        for i, layer in enumerate(self.convolutions):
            around = getattr(self, f"around{i}")
            patches = board.index_select(1, around.flatten()).view(len(board), len(around), -1)
            board = F.relu(layer(patches))
        scalars = obs[..., size:] * self.scalar_scale.to(obs.dtype)
        return self.out(torch.cat((board.reshape(*leading, -1), scalars.to(board.dtype)), -1))


def _neighbourhoods(stride: int) -> torch.Tensor:
    """For every kept cell of the board the cells around it, itself among them, across the edges."""
    reach = range(-(KERNEL // 2), KERNEL // 2 + 1)
    return torch.tensor(
        [
            [(row + i) % ROWS * COLUMNS + (column + j) % COLUMNS for i in reach for j in reach]
            for row in range(0, ROWS, stride)
            for column in range(0, COLUMNS, stride)
        ]
    )


def make_stem(encoder: Encoder, spec: NetworkSpec) -> nn.Module:
    """The stem that a specification names."""
    return registry.load(registry.NETWORKS, spec.stem)(encoder, spec)


def usable_packing(network: NetworkConfig, precision: Precision) -> Packing | None:
    """The packed rows that training can use on a GPU instead of an encoder's plain ones; None: keep those."""
    packing = PACKINGS.get(network.encoder or "")
    reads_packed = registry.load(registry.NETWORKS, network.kind) is DenseStem
    if packing is None or not reads_packed or precision.name != "bf16":
        return None
    return None if triton_problem(precision.device) else packing
