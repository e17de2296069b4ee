"""Test processes do not compile the same Numba function at the same time: one compiles, the others load its code.
Different functions are compiled side by side.

In a fresh checkout all workers and their servers (forking.py) need the rules first, and compiling takes 25 s of a core.
"""

import fcntl
import threading
import zlib
from functools import cache
from typing import Any, TextIO

from numba.core.caching import Cache
from numba.core.dispatcher import Dispatcher

from arena.jit import cache_folder

_load, _compile = Cache._load_overload, Dispatcher.compile


class _Locks(threading.local):
    """Of the functions that this thread compiles, each for the one before: the locked byte, None if none is locked."""

    def __init__(self) -> None:
        self.bytes: list[int | None] = []


_locks = _Locks()


def install() -> None:
    """For the rest of this process and of those forked from it."""
    Cache._load_overload, Dispatcher.compile = _load_in_turn, _compile_in_turn


@cache
def _file() -> TextIO:
    """Each function has a byte of its own in this file. Locks of bytes belong to a process: a fork does not have them,
    and processes that would wait for each other get an error. Never closed: closing it would unlock all bytes."""
    return (cache_folder() / ".compiling").open("w")


def _load_in_turn(self: Cache, *arguments: Any) -> Any:
    code = _load(self, *arguments)
    if code is not None or not _locks.bytes or _locks.bytes[-1] is not None:
        return code
    byte = zlib.crc32(self._cache_file._index_path.encode()) % 2**31
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX, 1, byte)
    except OSError:  # no such folder, or a file system without locks
        return None
    _locks.bytes[-1] = byte
    return _load(self, *arguments)  # another process may have compiled it meanwhile


def _compile_in_turn(self: Dispatcher, signature: Any) -> Any:
    _locks.bytes.append(None)
    try:
        return _compile(self, signature)
    finally:
        byte = _locks.bytes.pop()
        if byte is not None and byte not in _locks.bytes:
            fcntl.lockf(_file(), fcntl.LOCK_UN, 1, byte)
