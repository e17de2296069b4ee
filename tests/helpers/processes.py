"""Wait for what other processes do, and find them."""

import contextlib
import os
import select
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(true: Callable[[], object], seconds: float, what: str, every: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def processes_with(name: str, value: str) -> list[int]:
    """The processes that have this in their environment, wherever they hang in the tree."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{name}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def ends(pid: int) -> bool:
    """Whether a process has ended or does so within ten seconds."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([watch], [], [], 10)
    os.close(watch)
    return bool(ended)
