"""Limits of one match's process: memory, sizes and numbers of files, threads, CPU time of the whole match."""

import os
import resource
from contextlib import suppress

MEMORY_BYTES = 2 << 30  # beyond what Python and its packages take
FILE_BYTES = 64 << 20
OPEN_FILES = 128
THREADS = 1024  # of all matches together; not for root
CPU_SECONDS = 3600  # of a whole match; a move's limit, far below, is watched by the arena
THREADS_COUNTED_SINCE = (5, 14)  # earlier kernels count every process of the user


def memory_in_use(description: int | None) -> int:
    """Bytes of address space, from an open /proc/PID/statm; 0 without one."""
    if description is None:
        return 0
    return int(os.pread(description, 64, 0).split()[0]) * resource.getpagesize()


def set_limits(memory_used: int) -> None:
    """Limit the calling process; a system that does not know a limit goes without it."""
    wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    wanted.append((resource.RLIMIT_CPU, CPU_SECONDS))
    if memory_used:
        wanted.append((resource.RLIMIT_AS, memory_used + MEMORY_BYTES))
    for limit, value in wanted:
        _lower(limit, value)


def limit_threads() -> None:
    """Limit the threads of a cage's processes together."""
    release = tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2])
    if release >= THREADS_COUNTED_SINCE:
        _lower(resource.RLIMIT_NPROC, THREADS)


def _lower(limit: int, value: int) -> None:
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
