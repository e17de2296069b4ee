"""Packed rows (arena/encoders/packed.py) as a first layer reads them on a GPU: widened to bf16 by a Triton kernel."""

import torch

from arena.encoders import Packing

TILE_ROWS = 4  # that one program widens: 8 numbers for each thread, which it reads and writes at once


def unpack_on_gpu(rows: torch.Tensor, packing: Packing, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """The plain rows [N, W] of packed ones [N, bytes]; all numbers are exact in bf16."""
    import triton

    from marl.networks.row_kernels import unpack_kernel

    width = packing.plain.width
    x = torch.empty(len(rows), width, dtype=dtype, device=rows.device)
    unpack_kernel[(-(-len(rows) // TILE_ROWS), 1)](
        rows, rows, rows, x, len(rows),
        BYTES=rows.shape[1], CELLS=packing.cells, REST_AT=packing.rest_at, REST=packing.rest, K=width, GROUP=0,
        TILE_M=TILE_ROWS, TILE_C=triton.next_power_of_2(packing.cells), TILE_R=triton.next_power_of_2(packing.rest),
    )  # fmt: skip
    return x
