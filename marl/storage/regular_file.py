"""Reading a file of a run folder that must be a regular file: a FIFO in its place would wait for ever."""

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path) -> bytes:
    """The content of a file; OSError if it is missing, or is a folder, FIFO, socket or device."""
    return read_with_time(path)[0]


def read_with_time(path: Path) -> tuple[bytes, int]:
    """The content of a file and its time of modification in nanoseconds. Opening it asks a network drive anew."""
    handle = os.open(path, _FLAGS)  # O_NONBLOCK: opening a FIFO does not wait for a writer
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(), about.st_mtime_ns
