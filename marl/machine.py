"""Facts about this machine: processor, memory, GPUs, and the versions of packages."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "pettingzoo")  # their versions change speed or results
TRAINING_PACKAGES = ("safetensors", "pyyaml", "tensorboard", "rich", "nvidia-ml-py")  # theirs do not


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """The versions of Python and of each package; None for a missing package."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def processor() -> dict[str, Any]:
    """Model and usable cores of the CPU, and the memory of the machine."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"model": _model(), "cores": usable, "memory_gib": _memory_gib()}


def gpus() -> list[dict[str, Any]]:
    """Name and memory of every GPU that torch can use."""
    import torch

    found = []
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        found.append({"name": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)})
    return found


def _model() -> str:
    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    try:  # ARM: /proc/cpuinfo has only numbers, lscpu has names
        listing = subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        )
        for line in listing.stdout.splitlines():
            if line.startswith("Model name:"):
                return line.partition(":")[2].strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, OSError, ValueError):  # no such call on this system, or no such value
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
