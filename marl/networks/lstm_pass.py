"""The LSTM of a network by Triton's kernels on a GPU: all turns of a sequence in one kernel, forward and backward.

The plain version is `RecurrentActor`'s loop over turns, which a CPU uses. Both multiply in bf16 and sum in fp32. The
kernels round less: c and the gradients of the states stay in fp32 between turns.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from marl.compute.triton_kernels import triton_problem

SIZES = (32, 64, 128, 256)  # of LSTMs that the kernels are for


class TurnsTile(NamedTuple):
    """What one block of a kernel over turns computes."""

    rows: int  # snakes
    weights: int  # of a gate in a step (lstm_kernels.py); 0: all are kept (lstm_resident_kernels.py)
    warps: int
    stages: int

    @property
    def is_resident(self) -> bool:
        return self.weights == 0

    def units(self, size: int) -> int:
        """Units of an LSTM in a step: at least two steps for a turn, so that only steps are pipelined, never turns."""
        return min(self.weights // size, size // 2)


class StepTile(NamedTuple):
    """What one block of the kernel of a single turn computes."""

    rows: int
    units: int
    inputs: int  # of a step; a divisor of the LSTM's size
    warps: int
    stages: int


class LstmTiles(NamedTuple):
    """Tiles of an LSTM."""

    forward: TurnsTile
    backward: TurnsTile
    step: StepTile


# Up to 80 KiB of shared memory. Chosen by measurement on an H200 (docs/performance.md).
STREAMED = LstmTiles(TurnsTile(16, 8192, 4, 2), TurnsTile(16, 4096, 4, 3), StepTile(64, 64, 32, 8, 3))
# Up to 168 KiB; more snakes in a tile need more registers than there are.
RESIDENT = STREAMED._replace(forward=TurnsTile(32, 0, 8, 1), backward=TurnsTile(32, 0, 8, 1))
RESIDENT_SIZES = (64, 128)
HOPPER = (9, 0)
ALIGNED = 8  # columns: a multiple of this lets the matrix units read whole words


def tiles_for(device: torch.device, size: int) -> LstmTiles:
    """The faster tiles of those that a device can run."""
    is_hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER
    return RESIDENT if is_hopper and size in RESIDENT_SIZES else STREAMED


def may_run_kernels(x: torch.Tensor, size: int) -> bool:
    """Whether the kernels are for inputs x of an LSTM of a size. If not: the plain version."""
    fits = x.is_cuda and x.dtype == torch.bfloat16 and size in SIZES
    return fits and not triton_problem(x.device)


def lstm_turns(
    x: torch.Tensor, is_first: torch.Tensor, hidden: torch.Tensor, cell: nn.LSTMCell, tiles: LstmTiles | None = None
) -> torch.Tensor:
    """Inputs x [T, N, I] to h after each turn, [T, N, H]. hidden [2, N, H]: before the first turn; 0 where is_first."""
    weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)
    return _LstmTurns.apply(x, is_first, hidden[0], hidden[1], *weights, tiles or tiles_for(x.device, hidden.shape[-1]))


@torch.no_grad()
def lstm_step(
    x: torch.Tensor,
    is_first: torch.Tensor,
    hidden: torch.Tensor,
    cell: nn.LSTMCell,
    out: torch.Tensor | None = None,
    tiles: LstmTiles | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One turn without gradients: inputs x [N, I] and hidden [2, N, H] to h [N, H] and the next hidden state.

    out: where that is written, maybe `hidden` itself.
    """
    size, dtype = hidden.shape[-1], x.dtype
    tiles = tiles or tiles_for(x.device, size)
    weights = (cell.weight_ih.to(dtype), cell.weight_hh.to(dtype), cell.bias_ih + cell.bias_hh)
    h, hidden = x.new_empty(len(x), size), hidden.contiguous()
    is_free = out is not None and out.is_contiguous() and (tiles.forward.is_resident or out is not hidden)
    after = out if out is not None and is_free else torch.empty_like(hidden)
    states = (_bytes(is_first), hidden, after, h, len(x))
    if tiles.forward.is_resident:
        _run_resident_step(tiles.forward, x, *weights, *states)
    else:
        _run_step(tiles.step, x.contiguous(), *weights, *states)
    return h, after if out is None or out is after else out.copy_(after)


def _run_step(tile: StepTile, x: torch.Tensor, *arguments: Any) -> None:
    from marl.networks.lstm_kernels import step_kernel

    (snakes, inputs), size = x.shape, arguments[1].shape[1]
    units = min(tile.units, size)
    step_kernel[(-(-snakes // tile.rows), size // units)](
        x, *arguments, INPUTS=inputs, H=size, TILE=tile.rows, UNITS=units, TILE_K=tile.inputs,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _run_resident_step(
    tile: TurnsTile, x: torch.Tensor, input_weight: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *states: Any
) -> None:
    from marl.networks.lstm_resident_kernels import step_kernel

    size, gates = weight.shape[1], F.linear(x, input_weight, bias.to(x.dtype))
    # As many programs as fit on the GPU at once: each reads the weights once.
    properties = torch.cuda.get_device_properties(x.device) if x.is_cuda else None
    programs = 1 if properties is None else properties.multi_processor_count * (RESIDENT_SIZES[-1] // size)
    step_kernel[(min(programs, -(-len(x) // tile.rows)),)](
        gates, weight, *states, H=size, TILE=tile.rows, num_warps=tile.warps, num_stages=tile.stages
    )


def _bytes(is_first: torch.Tensor) -> torch.Tensor:
    return is_first.contiguous().view(torch.uint8)


def _run(name: str, tile: TurnsTile, size: int, *arguments: Any, **sizes: int) -> None:
    """Start a kernel over turns; the last two arguments are the numbers of snakes and turns."""
    options = {**sizes, "H": size, "TILE": tile.rows, "num_warps": tile.warps, "num_stages": tile.stages}
    kernels: Any
    if not tile.is_resident:
        from marl.networks import lstm_kernels as kernels

        options["UNITS"] = tile.units(size)
    else:
        from marl.networks import lstm_resident_kernels as kernels
    getattr(kernels, name)[(-(-arguments[-2] // tile.rows),)](*arguments, **options)


class _LstmTurns(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        is_first: torch.Tensor,
        h_first: torch.Tensor,
        c_first: torch.Tensor,
        input_weight: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        tiles: LstmTiles,
    ) -> torch.Tensor:
        (turns, snakes, inputs), size, dtype = x.shape, weight.shape[1], x.dtype
        input_weight, weight, is_first = input_weight.to(dtype), weight.to(dtype), _bytes(is_first)
        gates = F.linear(x, input_weight, bias.to(dtype))
        h = x.new_empty(turns + 1, snakes, size)
        c = torch.empty(turns + 1, snakes, size, device=x.device)
        h[0], c[0] = h_first, c_first
        # h before each turn, x and ones side by side: one product with the gates' gradient gives all of the weights'.
        factors = x.new_empty(turns, snakes, -(-(size + inputs + 1) // ALIGNED) * ALIGNED)
        factors[..., size : size + inputs] = x
        factors[..., size + inputs :] = 1
        given = (gates, weight, is_first, h, c, factors)
        _run("forward_kernel", tiles.forward, size, *given, snakes, turns, Z=factors.shape[-1])
        ctx.save_for_backward(factors, is_first, input_weight, weight, gates, c)
        ctx.tile = tiles.backward
        return h[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        factors, is_first, input_weight, weight, gates, c = ctx.saved_tensors
        (turns, snakes, columns), size, inputs = factors.shape, weight.shape[1], input_weight.shape[1]
        by_gates = torch.empty_like(gates)
        by_h, by_c = torch.empty(2, snakes, size, device=gates.device)
        given = (by_outputs.to(gates.dtype).contiguous(), gates, weight, is_first, c)
        _run("backward_kernel", ctx.tile, size, *given, by_gates, by_h, by_c, snakes, turns)
        by_x = by_gates @ input_weight if ctx.needs_input_grad[0] else None
        by_weights = by_gates.view(-1, 4 * size).t() @ factors.view(-1, columns)
        parts = by_weights[:, : size + inputs + 1].split((size, inputs, 1), 1)
        by_weight, by_input_weight, by_bias = (part.float().contiguous() for part in parts)
        return by_x, None, by_h, by_c, by_input_weight, by_weight, by_bias[:, 0], None
