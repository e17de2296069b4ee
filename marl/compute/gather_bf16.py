"""Rows of an encoder's bytes gathered and turned into bf16 in one pass, on a GPU.

torch does it in two, and its conversion from bytes is several times slower than memory allows: it was a quarter of
PPO's time.
"""

import torch
from numba import int8, int32, int64, uint8
from numba.cuda import libdevice

from arena.backends.cuda import launch
from arena.backends.numba_cuda import cuda, cuda_kernel

BYTES = 8  # of a word
HALF = 4


@cuda_kernel
def narrow_kernel(words, here, signed, out):
    i = cuda.grid(1)
    per_row = words.shape[1]
    if i < here.shape[0] * per_row:
        row = i // per_row
        at = i % per_row
        word = words[here[row], at]
        for part in range(2):
            packed = int64(0)
            for k in range(HALF):
                byte = (word >> (8 * (part * HALF + k))) & 0xFF
                number = int32(int8(byte)) if signed else int32(uint8(byte))
                bits = int64(libdevice.float_as_int(libdevice.int2float_rn(number))) & 0xFFFFFFFF
                packed |= (bits >> 16) << (16 * k)  # bf16 is the upper half of fp32; small integers are exact in it
            out[row, 2 * at + part] = packed


def narrow(words: torch.Tensor, here: torch.Tensor, signed: bool) -> torch.Tensor:
    """bf16 [M, bytes of a row] from words [N, bytes / 8] int64, of the rows that `here` [M] names."""
    rows, width = len(here), words.shape[1] * BYTES
    out = torch.empty(rows, width, dtype=torch.bfloat16, device=words.device)
    arguments = (words, here, signed, out.view(torch.int64))
    launch(narrow_kernel, rows * words.shape[1], words.device, *arguments)
    return out
