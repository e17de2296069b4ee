"""Facts about this machine: processor, memory, GPUs, and the versions of packages."""

import math
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from arena.control_groups import folders, text

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


def version_text(package: str, version: str | None, has_gpu: bool) -> str:
    """What is said about the version of a package: the version, `missing`, or that it is not needed."""
    if version is None and package == "numba-cuda" and not has_gpu:
        return "not needed (no GPU)"
    return version or "missing"


def processor() -> dict[str, Any]:
    """Model and usable cores of the CPU, and the memory of the machine."""
    return {"model": _model(), "cores": usable_cores(), "memory_gib": _memory_gib()}


def processor_text(about: dict[str, Any]) -> str:
    """What `processor` has found, in words."""
    memory = f"{about['memory_gib']} GiB" if about["memory_gib"] else "memory unknown"
    return f"{about['model']}, {about['cores']} cores, {memory}"


def usable_cores(root: str | os.PathLike = "/") -> int:
    """Cores that this process may use. root: folder of /proc and /sys.

    Only CPUs of the process's affinity count (taskset, SLURM), the hyper-threads of a core count once, and a control
    group's limit on CPU time (containers) is a limit on cores, rounded down.
    """
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    folder = Path(root, "sys/devices/system/cpu")
    # CPUs of one core have the same list of siblings. Without a list a CPU counts as a core.
    cores = {text(folder / f"cpu{cpu}" / "topology/thread_siblings_list").strip() or f"cpu{cpu}" for cpu in cpus}
    return int(max(1, min(len(cores), cpu_quota(root))))


def cpu_quota(root: str | os.PathLike = "/") -> float:
    """The cores whose time the control groups of this process (containers) let it use; infinite without a limit."""
    return min(map(_quota_of, folders("cpu", root)), default=math.inf)


def _quota_of(folder: Path) -> float:
    """The limit of one control group: `cpu.max` in version 2, two files in version 1."""
    words = text(folder / "cpu.max").split()
    words = words or [*text(folder / "cpu.cfs_quota_us").split(), *text(folder / "cpu.cfs_period_us").split()]
    try:
        quota, period = map(float, words)
    except ValueError:  # no such files, or `max`
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def gpus() -> list[dict[str, Any]]:
    """Name and memory of every GPU that torch can use."""
    import torch

    found = []
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        found.append({"name": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)})
    return found


@cache  # ranks that a launcher forks need not start lscpu again
def _model() -> str:
    for line in text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    try:  # ARM: /proc/cpuinfo has only numbers, lscpu has names
        listing = subprocess.run(
            ["lscpu"], capture_output=True, encoding="utf-8", check=True, env={**os.environ, "LC_ALL": "C"}
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
