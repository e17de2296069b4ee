"""Limits of the processes of a sandbox: memory, sizes and numbers of files, threads, CPU time."""

import os
import resource
from contextlib import suppress

MEMORY_BYTES = 2 << 30  # of a match, beyond what Python and its packages take
HOST_MEMORY_BYTES = 8 << 30  # that can be written to; packages that are imported take a part of it
FILE_BYTES = 64 << 20
OPEN_FILES = 128
THREADS = 1024  # of a host and all its matches together
CPU_SECONDS = 3600  # of a whole match; a move's limit, far below, is watched by the arena
HOST_CPU_SECONDS = 24 * 3600  # to start matches
IMPORT_CPU_SECONDS = 300
THREADS_COUNTED_SINCE = (5, 14)  # earlier kernels count every process of the user


def memory_in_use(description: int | None) -> int:
    """Bytes of address space, from an open /proc/PID/statm; 0 without one."""
    if description is None:
        return 0
    return int(os.pread(description, 64, 0).split()[0]) * resource.getpagesize()


def set_limits(memory_used: int) -> None:
    """Limit the process of a match; a system that does not know a limit goes without it."""
    wanted = [(resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    wanted.append((resource.RLIMIT_CPU, CPU_SECONDS))
    if memory_used:
        wanted.append((resource.RLIMIT_AS, memory_used + MEMORY_BYTES))
    for limit, value in wanted:
        _lower(limit, value)


def limit_host() -> None:
    """Limit the host while it imports packages; its children inherit that."""
    for name in ("RLIMIT_CORE", "RLIMIT_RTPRIO", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            _lower(getattr(resource, name), 0)
    _lower(resource.RLIMIT_DATA, HOST_MEMORY_BYTES)
    _lower(resource.RLIMIT_CPU, HOST_CPU_SECONDS, now=IMPORT_CPU_SECONDS)


def end_of_imports() -> None:
    """From here on the host may use its CPU time."""
    _lower(resource.RLIMIT_CPU, HOST_CPU_SECONDS)


def limit_threads() -> None:
    """Limit the threads of a sandbox's processes together."""
    release = tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2])
    if release >= THREADS_COUNTED_SINCE or os.getuid() != os.geteuid():  # such a user has no process elsewhere
        _lower(resource.RLIMIT_NPROC, THREADS)


def _lower(limit: int, value: int, now: int | None = None) -> None:
    """Set a limit for good, and a lower one for now."""
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value if now is None else min(now, value), value))
