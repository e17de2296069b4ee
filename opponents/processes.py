"""Linux's calls on the calling process, through libc. For the sandbox, which may import nothing above this file."""

import ctypes
import functools
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
HAS_PRCTL = sys.platform == "linux" and hasattr(os, "fork")


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Call a function of libc; OSError with the function's name if it fails."""
    result = getattr(_libc(), name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Linux's prctl with one argument."""
    zero = ctypes.c_ulong(0)
    call("prctl", option, ctypes.c_ulong(value), zero, zero, zero)


def end_with_parent(number: int | None = None) -> None:
    """Have this process get the signal, SIGKILL if none is given, as soon as the thread that started it ends; nothing
    but on Linux."""
    if HAS_PRCTL:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL if number is None else number)
