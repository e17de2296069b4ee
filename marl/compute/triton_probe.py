"""A Triton kernel that does next to nothing: it shows that Triton can compile and start kernels."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_one_kernel(numbers):
    tl.store(numbers, tl.load(numbers) + 1)


def run_probe(device: torch.device) -> None:
    """Run the kernel; an exception if it cannot run, or if it computes something else."""
    numbers = torch.zeros(1, dtype=torch.int32, device=device)
    add_one_kernel[(1,)](numbers)
    if numbers.item() != 1:
        raise RuntimeError("a kernel gave a wrong result")
