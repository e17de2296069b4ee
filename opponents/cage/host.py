"""The program of the cage: it locks itself in and starts one process for each match.

Commands come over a socket from the arena, which is trusted; nothing of the submission runs in this process. START with
a number comes with the match's socket and starts the process of that number; STOP ends it and is answered with how it
ended. When the arena closes the socket or is gone, all processes end.
"""

import gc
import importlib
import os
import re
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

from opponents.cage import controller, limits, namespaces, syscall_filter

READY = b"ready"
STATE_BYTES = 256  # the host's first packet: READY, or why it cannot cage
COMMAND, CODE = struct.Struct(">cI"), struct.Struct(">i")
START, STOP = b"+", b"-"
# Packages whose import takes long: imported once, before the processes of the matches are forked.
SLOW_PACKAGES = ("numpy", "scipy", "torch", "numba", "pandas")
IMPORTED = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([\w \t,.]+)", re.MULTILINE)
SOURCE_BYTES = 4 << 20
SOURCES = 20


def main(root: str, control: str, path: str, caged: str) -> None:
    """Serve the arena. root: the folder of our packages; control: number of the socket."""
    arena = socket.socket(fileno=int(control))
    _forget(root)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, Linux ends this and not the arena
    try:
        if caged == "caged" and not syscall_filter.is_known_here():
            raise OSError(0, "it needs Linux on x86_64 or aarch64")
        if caged == "caged":
            namespaces.enter()
        memory = _open_memory_description()
        if caged == "caged":
            namespaces.change_root(os.path.dirname(path))
            path = os.path.join(namespaces.SUBMISSION_FOLDER, os.path.basename(path))
        os.chdir(os.path.dirname(path))
    except (OSError, KeyError, StopIteration) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        arena.sendall(reason.encode()[:STATE_BYTES].ljust(STATE_BYTES, b"\0"))
        os._exit(1)
    _import_slow_packages(os.path.dirname(path))
    gc.freeze()  # the collector of a match's process must not touch, and so copy, all memory
    arena.sendall(READY.ljust(STATE_BYTES, b"\0"))
    _serve(arena, path, caged == "caged", memory)


def _forget(root: str) -> None:
    """The submission's modules and Python's come first and last; ours are not for it."""
    sys.path = [folder for folder in sys.path if folder not in ("", root)]


def _open_memory_description() -> int | None:
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _import_slow_packages(folder: str) -> None:
    """Import what the submission's files will import, as far as it takes long. Nothing of its folder is run."""
    if sys.platform != "linux":  # macOS: a fork after such an import may crash
        return
    words: set[bytes] = set()
    for name in _source_files(folder):
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            for imported in IMPORTED.findall(file.read(SOURCE_BYTES)):
                words |= set(re.findall(rb"\w+", imported))
    for package in SLOW_PACKAGES:
        if package.encode() in words:
            with suppress(Exception):  # the submission will meet the same error and tell it
                importlib.import_module(package)


def _source_files(folder: str) -> list[str]:
    """Names of the Python files; no pipes or devices, which would block a reader."""
    found = []
    for name in sorted(os.listdir(folder)):
        with suppress(OSError):
            if name.endswith(".py") and stat.S_ISREG(os.stat(os.path.join(folder, name)).st_mode):
                found.append(name)
    return found[:SOURCES]


def _serve(arena: socket.socket, path: str, caged: bool, memory: int | None) -> None:
    processes: dict[int, int] = {}
    while True:
        packet, sockets, _, _ = socket.recv_fds(arena, COMMAND.size, 1, socket.MSG_WAITALL)
        if len(packet) < COMMAND.size:
            break
        command, number = COMMAND.unpack(packet)
        if command == START:
            processes[number] = _start(arena, sockets[0], path, caged, memory)
            os.close(sockets[0])
        else:
            arena.sendall(CODE.pack(_stop(processes.pop(number))))
    for process in processes.values():
        _stop(process)
    os._exit(0)


def _start(arena: socket.socket, channel: int, path: str, caged: bool, memory: int | None) -> int:
    process = os.fork()
    if process:
        return process
    try:
        arena.close()
        _settle_in(channel, caged, limits.memory_in_use(memory))
        controller.answer_requests(channel, path)
    finally:
        os._exit(0)  # not sys.exit: that would wait for threads of the submission


def _settle_in(channel: int, caged: bool, memory_used: int) -> None:
    """Keep the channel and drop everything else that this process could do harm with."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.closerange(3, channel)
    os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
    if sys.platform == "linux":
        namespaces.prctl(namespaces.PR_SET_PDEATHSIG, signal.SIGKILL)
    if caged:
        namespaces.mount_scratch()
        limits.limit_threads()
    limits.set_limits(memory_used)
    if caged:
        namespaces.drop_capabilities()
    if caged:
        syscall_filter.install()
    elif syscall_filter.is_known_here():
        with suppress(OSError):  # a kernel without filters
            syscall_filter.install()


def _stop(process: int) -> int:
    """End a process that may have ended by itself; its exit code, or minus the signal."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)
