"""Packed rows become plain ones in the number format of a GPU, on a GPU or in Triton's interpreter."""

import pytest
import torch
from helpers.in_play import in_play
from helpers.triton_kernels import need_triton

from arena.encoders import PACKINGS
from marl.networks.packed_rows import unpack_on_gpu

SEED = 29
HAS_CUDA = torch.cuda.is_available()
MATCHES = 300 if HAS_CUDA else 5


@pytest.mark.parametrize("name", PACKINGS)
def test_unpacked_rows_are_the_plain_ones(name) -> None:
    need_triton()
    print(f"seed {SEED}")
    arena = in_play(MATCHES, SEED)
    plain, packed = (arena.observe(form).flatten(0, 1) for form in (name, PACKINGS[name].packed.name))
    dtype = torch.bfloat16 if HAS_CUDA else torch.float32
    found = unpack_on_gpu(packed.to("cuda" if HAS_CUDA else "cpu"), PACKINGS[name], dtype)
    assert torch.equal(found.cpu().float(), plain.float())
