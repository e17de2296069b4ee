"""Whether Triton's kernels can run on a device. Triton compiles a launcher in C, so it needs a C compiler, too."""

from functools import cache

import torch

LEAST_CAPABILITY = (8, 0)  # of a GPU: from here on it multiplies matrices in bf16


@cache
def triton_problem(device: torch.device) -> str:
    """Why Triton's kernels cannot run on a device; empty if they can. The first call compiles a small kernel."""
    if device.type != "cuda":
        return "the device is no GPU"
    if torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
        return "the GPU is too old"
    try:
        from marl.compute.triton_probe import run_probe

        run_probe(device)
    except ImportError:
        return "Triton is not installed"
    except Exception as error:  # a missing compiler, missing headers, a read-only cache: whatever it is
        return f"Triton fails: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
