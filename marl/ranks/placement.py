"""Where a rank computes: its backend, its device, and the environment defaults of NCCL and CUDA."""

import os
from collections.abc import MutableMapping

import torch

from arena import system
from marl.cli.wording import count
from marl.errors import UserError

BACKENDS = ("gloo", "nccl")


def place(
    backend: str | None,
    device: str,
    local_rank: int,
    local_world: int,
    gpus: int,
    may_have_nccl: bool = system.HAS_LINUX_CALLS,
) -> tuple[str, torch.device]:
    """Backend and device of a rank; a combination that cannot work is a UserError."""
    if backend is not None and backend not in BACKENDS:
        raise UserError(f"backend {backend!r} is unknown; known: {', '.join(BACKENDS)}")
    chosen = _choose_device(device, local_rank, gpus)
    if backend is None:
        backend = "nccl" if chosen.type == "cuda" and may_have_nccl else "gloo"
    if backend == "nccl" and chosen.type != "cuda":
        raise UserError("--backend nccl needs a GPU for every rank, but the device is the CPU; use --backend gloo")
    if backend == "nccl" and local_world > (1 if device.startswith("cuda:") else gpus):
        raise UserError(
            f"{local_world} ranks on this node but {count(gpus, 'GPU')} for them: NCCL needs one GPU per rank; "
            f"use --num_gpus {gpus}, or --backend gloo"
        )
    return backend, chosen


def _choose_device(device: str, local_rank: int, gpus: int) -> torch.device:
    if device == "auto":
        device = "cuda" if gpus else "cpu"
    if device == "cpu":
        return torch.device("cpu")
    kind, _, index = device.partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise UserError(f"--device {device}: unknown; known: auto, cpu, cuda, cuda:N")
    if not gpus:
        raise UserError(f"--device {device}: torch sees no CUDA device here; use --device cpu")
    if index and int(index) >= gpus:
        raise UserError(f"--device {device}: this machine has {count(gpus, 'GPU')}, numbered from 0")
    # With more ranks than GPUs, several ranks share one GPU. Only gloo allows it; place() refuses it for NCCL.
    return torch.device("cuda", int(index) if index else local_rank % gpus)


def set_nccl_defaults(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Set variables of NCCL and CUDA that the user has not set; returns the variables that were set.

    Call it before CUDA starts. P2P and InfiniBand have no default here: NCCL finds out what works.
    """
    defaults = {
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    # The newer name of the same setting: the user's value wins. Elsewhere than on Linux torch only warns of it.
    if "PYTORCH_ALLOC_CONF" in environment or not system.HAS_LINUX_CALLS:
        del defaults["PYTORCH_CUDA_ALLOC_CONF"]
    missing = {name: value for name, value in defaults.items() if name not in environment}
    environment.update(missing)
    return missing
