"""Test processes do not compile the same Numba function at the same time: one compiles, the others load its code.

In a fresh checkout all workers and their servers (forking.py) need the rules first, and compiling takes 25 s of a core.
"""

import fcntl
import threading
from typing import Any

from numba.core.caching import Cache
from numba.core.dispatcher import Dispatcher

from arena.jit import cache_folder

_load, _compile = Cache._load_overload, Dispatcher.compile


class _Turn(threading.local):
    depth = 0  # functions that this thread compiles, each for the one before
    file: Any = None  # open and locked while it is this thread's turn


_turn = _Turn()


def install() -> None:
    """For the rest of this process and of those forked from it."""
    Cache._load_overload, Dispatcher.compile = _load_in_turn, _compile_in_turn


def _load_in_turn(self: Cache, *arguments: Any) -> Any:
    code = _load(self, *arguments)
    if code is not None or _turn.file is not None or not _turn.depth:
        return code
    try:
        file = (cache_folder() / ".compiling").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # no such folder, or a file system without locks
        return None
    _turn.file = file
    return _load(self, *arguments)  # another process may have compiled it meanwhile


def _compile_in_turn(self: Dispatcher, signature: Any) -> Any:
    _turn.depth += 1
    try:
        return _compile(self, signature)
    finally:
        _turn.depth -= 1
        if not _turn.depth and _turn.file is not None:
            fcntl.flock(_turn.file, fcntl.LOCK_UN)  # also for a process that was forked meanwhile
            _turn.file.close()
            _turn.file = None
