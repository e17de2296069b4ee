"""Control groups of Linux: the limits that a container or a batch system sets for this process."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

Root = str | os.PathLike[str]  # folder of /proc and /sys


def folders(controller: str, root: Root = "/") -> Iterator[Path]:
    """Folders of all control groups of this process that may limit a resource (`cpu`, `memory`)."""
    for line in text(Path(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        # Version 2 has no list of controllers. "unified" is its folder beside version 1.
        mounts = (controller, controllers) if controllers else ("", "unified")
        group = PurePosixPath(path.lstrip("/"))
        # In a container the path may be that of the host, with only the root of it mounted.
        yield from {Path(root, "sys/fs/cgroup", mount, part) for mount in mounts for part in (group, *group.parents)}


def free_memory(root: Root = "/") -> int:
    """Bytes that this process may still use, by the free memory of the machine and the limits of its control groups.

    Very large where nothing can be read.
    """
    available = _numbers(text(Path(root, "proc/meminfo"))).get("MemAvailable:", 2**53)
    return min([1024 * available, *map(_left_in, folders("memory", root))])


def text(path: Path) -> str:
    """A small file; empty if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _left_in(folder: Path) -> int:
    """Bytes left in one control group. Cached files do not count as used: the kernel drops them when it needs room."""
    for limit, used, cached in (("max", "current", ""), ("limit_in_bytes", "usage_in_bytes", "total_")):
        words = text(folder / f"memory.{limit}"), text(folder / f"memory.{used}")
        if all(word.strip().isdecimal() for word in words):
            stat = _numbers(text(folder / "memory.stat"))
            files = stat.get(f"{cached}inactive_file", 0) + stat.get(f"{cached}active_file", 0)
            return max(0, int(words[0]) - int(words[1]) + files)
    return 2**63  # no such files, or `max`


def _numbers(lines: str) -> dict[str, int]:
    """The numbers of a file with lines `name number ...`."""
    pairs = (line.split()[:2] for line in lines.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
