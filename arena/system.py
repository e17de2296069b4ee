"""What this system has, by what its Python offers: no other file needs the name of the system to know that.

Linux has all of it. macOS has no sandbox, and its libraries do not survive a fork. Windows has neither forks nor
sessions, and holds on to open files; what needs these is done in another way there, or not at all.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HAS_FORK = hasattr(os, "fork")
HAS_LINUX_CALLS = HAS_FORK and sys.platform == "linux"
FORKS_WHEN_LOADED = HAS_LINUX_CALLS  # also after torch and Numba are loaded
SHARES_MEMORY = HAS_LINUX_CALLS and hasattr(os, "memfd_create")  # with other processes, without a file or a name
HAS_SESSIONS = hasattr(os, "setsid")  # else Ctrl-C reaches all processes of a console
SOCKETS_ARE_FILES = HAS_FORK  # with a number that any library can use
SHARES_BOUND_PORTS = HAS_FORK  # with SO_REUSEADDR: ports at which nobody listens; on Windows it would share all
REPLACES_OPEN_FILES = HAS_FORK  # Windows refuses to replace, rename or remove a file that any process has open
# What asks a program to end. SIGBREAK is Windows': Ctrl-Break, and the one request that a program can send to another.
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
SIGKILL: int | None = getattr(signal, "SIGKILL", None)
ENDED_BY_CONSOLE = 0xC000013A  # exit code on Windows of a program that a request has ended before it could answer


def apart_from_console(before: Callable[[], None]) -> dict[str, Any]:
    """Options of a Popen: Ctrl-C reaches this process alone. before: called in the new process, where that can be."""
    if HAS_SESSIONS:
        return {"start_new_session": True, "preexec_fn": before}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def ask_to_end(process: subprocess.Popen) -> None:
    """Let a process that was started with `apart_from_console` save and end."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def wait_for_end_of(parent: int, poll: float) -> None:
    """Wait until this process's parent has ended. poll: seconds between two looks, where it cannot be waited for."""
    try:
        windows: Any = importlib.import_module("_winapi")
    except ImportError:
        while os.getppid() == parent:
            time.sleep(poll)
        return
    with contextlib.suppress(OSError):  # it has ended already; on Windows its id stays that of the parent
        handle = windows.OpenProcess(windows.SYNCHRONIZE, False, parent)
        windows.WaitForSingleObject(handle, windows.INFINITE)


def be_nice(by: int) -> None:
    """Leave the cores to others, where the system can."""
    if hasattr(os, "nice"):
        os.nice(by)
