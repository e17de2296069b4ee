"""Passes of dense networks of one shape over the same rows on a GPU, without autograd: DDPG's actor and critic.

The first layers of all networks are one product of rows in bf16 by cuBLAS; each kernel behind it (tail_kernels.py)
computes all networks. A batch of DDPG is small: by autograd an update starts 240 kernels, most of them shorter than the
gap before the next one. The plain version is the modules in marl/networks, by autograd.
"""

import torch

from arena.encoders import Packing
from arena.rules import TEAM
from marl.networks.dense_pass import DenseLayers
from marl.networks.packed_rows import TILE_ROWS
from marl.networks.tail_tiles import TailTiles, launch_options, tail_tiles_for

ALIGNED = 64  # numbers of a row of a matrix: what the matrix units take in a step
PROGRAMS = 132  # of each network, that sum up gradients over the rows
BLOCK = 1024  # numbers of a program that copies


class WideRows:
    """Rows of a buffer as numbers that matrices are made of: x [batches, M, K], K = W + 1 rounded up.

    Column W is 1: as a column of the weights' gradient it is the gradient of the biases. The columns behind it are 0.
    """

    def __init__(
        self, width: int, packing: Packing | None, batches: int, rows: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """packing: of the rows; None: they are plain."""
        self._width, self._packing = width, packing
        self.x = torch.zeros(batches, rows, -(-(width + 1) // ALIGNED) * ALIGNED, dtype=dtype, device=device)
        self.x[..., width] = 1

    def read(self, rows: torch.Tensor, idx: torch.Tensor | None = None, next_idx: torch.Tensor | None = None) -> None:
        """Fill x with rows [R, W], plain or packed; with indices of teams, 3 rows each, one batch for each of them."""
        from marl.networks.row_kernels import unpack_kernel, widen_kernel

        batches, count, padded = self.x.shape
        first = rows if idx is None else idx
        arguments = (rows, first, first if next_idx is None else next_idx, self.x, count)
        group, packing = 0 if idx is None else TEAM, self._packing
        if packing is None:
            widen_kernel[(-(-count // TILE_ROWS), batches)](
                *arguments, W=self._width, K=padded, GROUP=group, TILE_M=TILE_ROWS, TILE_W=256
            )
            return
        sizes = {"CELLS": packing.cells, "REST_AT": packing.rest_at, "REST": packing.rest}
        tiles = {"TILE_C": power_of_two(packing.cells), "TILE_R": power_of_two(packing.rest)}
        unpack_kernel[(-(-count // TILE_ROWS), batches)](
            *arguments, BYTES=rows.shape[1], **sizes, K=padded, GROUP=group, TILE_M=TILE_ROWS, **tiles
        )


class StackedPass:
    """Passes of networks with a fixed number of rows, always through the same tensors."""

    def __init__(
        self,
        layers: DenseLayers,
        weights: torch.Tensor,
        x: torch.Tensor,
        tail: TailTiles | None = None,
    ) -> None:
        """layers: of one of the networks. weights [networks, P]: their parameters in turn. x [M, K]: see WideRows.

        The attribute x may be replaced between a backward pass and the next forward pass.
        """
        device, dtype, (first, second, out) = x.device, x.dtype, layers.weights
        self.weights, self.scale, self.x = weights, layers.scale, x
        networks, self._wide, self._deep, self._out = len(weights), *(len(bias) for bias in layers.biases)
        at_tail = first.numel() + self._wide
        tail_weights = weights[:, at_tail:]
        copies = -(-tail_weights.shape[1] // 8) * 8  # 16 bytes: what one load of a kernel takes
        self._rest = tail_weights.shape[1] - second.numel()
        self._first = torch.zeros(networks * self._wide, x.shape[1], dtype=dtype, device=device)
        self._first_bias = torch.zeros(networks * self._wide, dtype=dtype, device=device)
        self._copy = torch.zeros(networks, copies, dtype=dtype, device=device)
        at_bias, at_out = second.numel(), second.numel() + self._deep
        self._copies = self._copy, self._copy[:, at_out:]
        self._biases = self._copy[:, at_bias:], self._copy[:, at_out + out.numel() :]
        self.copies = self._first, self._first_bias, self._copy  # of the weights, as copy_weights_kernel makes them
        self.sizes = {"W": first.shape[1], "H": self._wide, "K": x.shape[1], "P": weights.shape[1], "COPIES": copies}
        self._stacked = {"NETWORKS": networks, "COPIES": copies}
        self._tail = tail or tail_tiles_for(device, self._deep)._replace(programs=PROGRAMS)
        self._tile_n = max(16, power_of_two(self._deep))
        # First hidden layers stand side by side, second ones and outputs follow each other.
        shapes = (len(x), networks * self._wide), (networks, len(x), self._deep)
        self._hidden = tuple(torch.empty(shape, dtype=dtype, device=device) for shape in shapes)
        self.outputs = torch.empty(networks, len(x), self._out, device=device)
        self._by_hidden: tuple[torch.Tensor, ...] = ()

    def take_weights(self) -> None:
        """Copy the present weights into the number format of the products."""
        from marl.networks.row_kernels import copy_weights_kernel

        networks, size = self.weights.shape
        copy_weights_kernel[(-(-size // BLOCK), networks)](
            self.weights, self.scale, *self.copies, **self.sizes, BLOCK=BLOCK
        )  # fmt: skip

    def forward(self, keep: bool = True) -> None:
        """Write the outputs [networks, M, n] for x. keep: for a backward pass."""
        from marl.networks.tail_kernels import tail_forward_kernel

        tile, count = self._tail.forward, len(self.x)
        torch._addmm_activation(self._first_bias, self.x, self._first.t(), out=self._hidden[0])  # with ReLU
        (weight, out_weight), (bias, out_bias) = self._copies, self._biases
        tail_forward_kernel[(-(-count // tile.rows), len(self.weights))](
            self._hidden[0], weight, bias, out_weight, out_bias, self._hidden[1], self.outputs, count,
            H=self._wide, N=self._deep, OUT=self._out, KEEP=keep, TILE_N=self._tile_n, TILE_K=tile.inputs,
            **self._stacked, **launch_options(tile),
        )  # fmt: skip

    def backward_outputs(self, by_outputs: torch.Tensor) -> None:
        """Gradients of the second hidden layers, given those of the last outputs, [networks, M, n]."""
        from marl.networks.tail_kernels import by_second_kernel

        networks, tail = len(self.weights), self._tail
        if not self._by_hidden:
            self._by_hidden = tuple(torch.empty_like(hidden) for hidden in self._hidden)
            self._partial = torch.empty(tail.programs, networks, self._rest, device=by_outputs.device)
            self._by_first_weight = torch.empty_like(self._first)
            self._by_second_weight = self._first.new_empty(networks, self._deep, self._wide)
        by_second_kernel[(tail.programs, networks)](
            self._hidden[1], by_outputs, self._copies[1], self._by_hidden[1], self._partial, len(self.x),
            N=self._deep, OUT=self._out, TILE_N=self._tile_n, **self._stacked, **launch_options(tail.by_second),
        )  # fmt: skip

    def backward_second(self) -> None:
        """Gradients of the second layers' weights; beside backward_first, if there is another stream."""
        first, by_second = self._hidden[0].view(len(self.x), -1, self._wide), self._by_hidden[1]
        for network, found in enumerate(self._by_second_weight):
            torch.mm(by_second[network].t(), first[:, network], out=found)

    def backward_first(self) -> None:
        """Gradients of the first hidden layers, and of their weights and biases."""
        from marl.networks.tail_kernels import by_first_kernel

        tile, count, wide = self._tail.by_first, len(self.x), self._wide
        by_first_kernel[(-(-count // tile.rows), -(-wide // tile.outputs), len(self.weights))](
            self._hidden[0], self._by_hidden[1], self._copies[0], self._by_hidden[0], count,
            H=wide, N=self._deep, TILE_H=tile.outputs, TILE_K=tile.inputs, **self._stacked, **launch_options(tile),
        )  # fmt: skip
        torch.mm(self._by_hidden[0].t(), self.x, out=self._by_first_weight)

    def collect_gradients(self, gradients: torch.Tensor) -> None:
        """Write all gradients into one tensor [networks, P], like the weights."""
        from marl.networks.row_kernels import collect_gradients_kernel

        networks, size = self.weights.shape
        blocks, tile_r = -(-(size - self._rest) // BLOCK), 16
        collect_gradients_kernel[(blocks + -(-self._rest // tile_r), networks)](
            self._by_first_weight, self._by_second_weight, self._partial, self.scale, gradients, self._tail.programs,
            **self.sizes, N=self._deep, NETWORKS=networks, BLOCKS=blocks, BLOCK=BLOCK, TILE_P=64, TILE_R=tile_r,
        )  # fmt: skip


class StackedInference:
    """Outputs of one network for the rows of a turn, without gradients."""

    def __init__(self, layers: DenseLayers, weights: torch.Tensor, packing: Packing | None, dtype: torch.dtype) -> None:
        self._layers, self._weights, self._packing, self._dtype = layers, weights, packing, dtype
        self._passes: dict[int, tuple[WideRows, StackedPass, torch.Tensor]] = {}
        self._has_weights = False  # whether all passes have the present weights
        self._outputs: torch.Tensor | None = None

    def write_into(self, outputs: torch.Tensor) -> None:
        """From the first call on, write the outputs for as many rows as `outputs` [N, n] has into it, and return it."""
        self._outputs = outputs

    def take_weights(self) -> None:
        """Take the present weights, for all calls from now on. Without this each call takes them."""
        for _, found, _ in self._passes.values():
            found.take_weights()
        self._has_weights = True

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """The outputs [N, n] for rows [N, W], plain or packed; overwritten by the next call with as many rows."""
        if len(rows) not in self._passes:
            self._passes[len(rows)] = self._pass_for(rows)
            self._has_weights = False
        wide, found, outputs = self._passes[len(rows)]
        wide.read(rows)
        if not self._has_weights:
            found.take_weights()
        found.forward(keep=False)
        return outputs

    def _pass_for(self, rows: torch.Tensor) -> tuple[WideRows, StackedPass, torch.Tensor]:
        width = self._layers.weights[0].shape[1]
        wide = WideRows(width, self._packing, 1, len(rows), self._dtype, rows.device)
        made = StackedPass(self._layers, self._weights, wide.x[0])
        if self._outputs is None or len(self._outputs) != len(rows):
            return wide, made, made.outputs[0]
        made.outputs = self._outputs[None]
        return wide, made, self._outputs


def power_of_two(number: int) -> int:
    """The number, rounded up to a power of two."""
    return 1 << (number - 1).bit_length()
