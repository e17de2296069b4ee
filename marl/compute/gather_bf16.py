"""Gather rows of bytes and convert them to bf16 in one pass, on a GPU.

torch needs two passes, and its conversion from bytes is several times slower than the memory allows: it was a quarter
of PPO's time.
"""

import torch
from numba import int8, int32, int64, uint8
from numba.cuda import libdevice

from arena.backends.loops import launch
from arena.backends.numba_cuda import cuda, cuda_kernel

BYTES = 8  # of a word
HALF = 4  # bytes that become one 64-bit word of bf16


@cuda_kernel
def gather_kernel(words, idx, signed, out):
    i = cuda.grid(1)
    per_row = words.shape[1]
    if i < idx.shape[0] * per_row:
        row = i // per_row
        at = i % per_row
        word = words[idx[row], at]
        for part in range(2):
            packed = int64(0)
            for k in range(HALF):
                byte = (word >> (8 * (part * HALF + k))) & 0xFF
                number = int32(int8(byte)) if signed else int32(uint8(byte))
                bits = int64(libdevice.float_as_int(libdevice.int2float_rn(number))) & 0xFFFFFFFF
                packed |= (bits >> 16) << (16 * k)  # bf16 is the upper half of fp32; small integers are exact in it
            out[row, 2 * at + part] = packed


def gather_bf16(words: torch.Tensor, idx: torch.Tensor, signed: bool) -> torch.Tensor:
    """bf16 [M, W] from the rows idx [M] of words [N, W / 8] int64, which hold signed or unsigned bytes."""
    rows, width = len(idx), words.shape[1] * BYTES
    out = torch.empty(rows, width, dtype=torch.bfloat16, device=words.device)
    arguments = (words, idx, signed, out.view(torch.int64))
    launch(gather_kernel, rows * words.shape[1], words.device, *arguments)
    return out
