"""The program of the sandbox: it locks itself in and starts one process for each match.

The first process only watches: when the arena is gone, all others end. Its child is the host. It locks itself in and
takes commands from the arena, which is trusted, over a socket: START with a number comes with the match's socket and
starts the process of that number; STOP ends it and is answered with how it ended.

The host runs nothing of the submission and reads none of its files; it only imports packages, for all matches at once.
It does so in an empty root folder, without rights over anything but new mounts of its own, with limits and a filter.
"""

import errno
import fcntl
import gc
import importlib
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from opponents.processes import end_with_parent
from opponents.sandbox import limits, namespaces, syscall_filter
from opponents.sandbox.protocol import CODE, COMMAND, READY, SETTINGS_SIZE, STATE_BYTES, STOP

LOOK_SECONDS = 0.5  # the arena may be gone though other processes keep its socket open
END_SECONDS = 2.0  # for the host to end by itself
SCAN_SECONDS = 30.0
# Packages whose import takes long: imported once, before the processes of the matches are forked.
SLOW_PACKAGES = ("numpy", "scipy", "torch", "numba", "pandas")
IMPORTED = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([\w \t,.]+)", re.MULTILINE)
SOURCE_BYTES = 4 << 20
SOURCES = 20
NOTICE, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")  # the kernel's seccomp_notif and seccomp_notif_resp
RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
MOST_UNKNOWN_CALLS = 16  # then the listener is closed, and the kernel answers by itself


def main(control: str) -> tuple[BinaryIO, Callable[[bytes], object], str]:
    """Serve the arena. control: number of the socket.

    Returns in the process of each match, with what `controller.answer_requests` needs. To call that is for the caller,
    so that no frame and no name of this program is in the submission's reach.
    """
    sys.argv, sys.orig_argv = [""], [""]
    arena = socket.socket(fileno=int(control))
    (size,) = SETTINGS_SIZE.unpack(arena.recv(SETTINGS_SIZE.size, socket.MSG_WAITALL))
    settings = json.loads(arena.recv(size, socket.MSG_WAITALL))
    sys.path[:0] = settings["module_folders"]
    sandboxed, path = settings["sandboxed"], settings["path"]
    with suppress(OSError):
        # If memory runs out, Linux ends this and not the arena.
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    try:
        if sandboxed and not syscall_filter.is_known_here():
            raise OSError(0, "it needs Linux on x86_64 or aarch64")
        if sandboxed:
            namespaces.enter()
        watcher = _leave_to_a_child(arena, settings["arena"], settings["stderr"], sandboxed)
        memory = _open_memory_description()
        if sandboxed:
            _lock_in(os.path.dirname(path), watcher)
            path = os.path.join(namespaces.SUBMISSION_FOLDER, os.path.basename(path))
    except (OSError, KeyError, StopIteration) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        arena.sendall(reason.encode()[:STATE_BYTES].ljust(STATE_BYTES, b"\0"))
        os._exit(1)
    if sys.platform == "linux":  # macOS: a fork after such an import may crash
        _import_packages(_packages_of(path, sandboxed, memory))
    limits.end_of_imports()
    gc.freeze()  # the collector of a match's process must not touch, and so copy, all memory
    arena.sendall(READY.ljust(STATE_BYTES, b"\0"))
    channel = _serve(arena, path, sandboxed, memory)
    # Not by functions of this file: through one of them the submission would reach all that the file knows.
    return open(channel, "rb", closefd=False), partial(os.write, channel), path


def _leave_to_a_child(arena: socket.socket, arena_id: int, stderr: int, sandboxed: bool) -> int:
    """Return in a child: the number of a socket to this process, which waits until the child or the arena is gone."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        os.close(stderr)
        end_with_parent()
        return theirs.detach()  # open as long as the child is there
    theirs.close()
    if sandboxed:
        namespaces.keep_capabilities()
    _watch(arena, arena_id, ours, stderr)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 255)


def _watch(arena: socket.socket, arena_id: int, child: socket.socket, stderr: int) -> None:
    """Wait until the child has ended, or the arena is gone and the child has had time to end."""
    poll = select.poll()
    poll.register(child, select.POLLIN)
    poll.register(arena, 0)  # an event when the arena hangs up
    calls: UnknownCalls | None = None
    listener = -1
    while os.getppid() == arena_id:
        events = dict(poll.poll(LOOK_SECONDS * 1000))
        if arena.fileno() in events:
            break
        if child.fileno() in events:
            packet, files, _, _ = socket.recv_fds(child, 1, 1)
            if not packet:
                return
            listener = files[0]
            calls = UnknownCalls(listener, stderr)
            poll.register(listener, select.POLLIN)
        if listener in events and (events[listener] & ~select.POLLIN or not calls.refuse_next()):
            poll.unregister(listener)
    ending = select.poll()
    ending.register(child, select.POLLIN)
    ending.poll(END_SECONDS * 1000)


def _lock_in(folder: str, watcher: int) -> None:
    """Everything that holds the host, in force before it imports packages."""
    itself = namespaces.describe_itself()
    namespaces.change_root(folder)
    namespaces.lock_mounts(itself)
    os.close(itself)
    limits.limit_host()
    limits.limit_threads()
    namespaces.keep_capabilities(namespaces.CAP_SYS_ADMIN)  # for scratch folders, over mounts that are locked
    end_with_parent()  # a change of users has taken it back
    listener = syscall_filter.install_in_host()
    if listener is not None:
        # With its kind: otherwise Python would ask the kernel for it, which the filter refuses.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, watcher) as to_watcher:
            socket.send_fds(to_watcher, [b"!"], [listener])
            to_watcher.detach()
        os.close(listener)


def _open_memory_description() -> int | None:
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _packages_of(path: str, sandboxed: bool, memory: int | None) -> list[str]:
    """The slow packages that the submission's files import, found by a process with all that holds a match's."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if not process:
        try:
            _settle_in(theirs.fileno(), sandboxed, limits.memory_in_use(memory))
            os.write(theirs.fileno(), bytes(map(SLOW_PACKAGES.index, _imported(os.path.dirname(path)))))
        finally:
            os._exit(0)
    theirs.close()
    ours.settimeout(SCAN_SECONDS)
    answer = b""
    with ours, suppress(OSError):
        answer = ours.recv(len(SLOW_PACKAGES))
    _stop(process)
    return [SLOW_PACKAGES[number] for number in sorted(set(answer)) if number < len(SLOW_PACKAGES)]


def _imported(folder: str) -> list[str]:
    """The slow packages that are named in import statements of the folder's Python files."""
    words: set[bytes] = set()
    for name in _source_files(folder):
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            for imported in IMPORTED.findall(file.read(SOURCE_BYTES)):
                words |= set(re.findall(rb"\w+", imported))
    return [package for package in SLOW_PACKAGES if package.encode() in words]


def _source_files(folder: str) -> list[str]:
    """Names of the Python files; no pipes or devices, which would block a reader."""
    found = []
    for name in sorted(os.listdir(folder)):
        with suppress(OSError):
            if name.endswith(".py") and stat.S_ISREG(os.stat(os.path.join(folder, name)).st_mode):
                found.append(name)
    return found[:SOURCES]


def _import_packages(names: list[str]) -> None:
    for name in names:
        with suppress(Exception):  # the submission will meet the same error and tell it
            importlib.import_module(name)


def _serve(arena: socket.socket, path: str, sandboxed: bool, memory: int | None) -> int:
    """Start and stop processes until the arena is gone. Returns in the process of a match, with its channel."""
    processes: dict[int, int] = {}
    while True:
        packet, sockets, _, _ = socket.recv_fds(arena, COMMAND.size, 1, socket.MSG_WAITALL)
        if len(packet) < COMMAND.size:
            break
        command, number = COMMAND.unpack(packet)
        if command == STOP:
            arena.sendall(CODE.pack(_stop(processes.pop(number))))
            continue
        process = os.fork()
        if not process:
            arena.close()
            _begin_match(sockets[0], path, sandboxed, memory)
            return sockets[0]
        processes[number] = process
        os.close(sockets[0])
    for process in processes.values():
        _stop(process)
    os._exit(0)


def _begin_match(channel: int, path: str, sandboxed: bool, memory: int | None) -> None:
    try:
        _settle_in(channel, sandboxed, limits.memory_in_use(memory))
        os.chdir(os.path.dirname(path))
    except BaseException:
        os._exit(1)


def _settle_in(channel: int, sandboxed: bool, memory_used: int) -> None:
    """Keep the channel and drop everything else that this process could do harm with."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.closerange(3, channel)
    os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
    end_with_parent()
    if sandboxed:
        namespaces.mount_scratch()
    limits.set_limits(memory_used)
    if sandboxed:
        namespaces.keep_capabilities()
    if sandboxed:
        syscall_filter.install(has_host_filter=True)
    elif syscall_filter.is_known_here():
        with suppress(OSError):  # a kernel without filters
            syscall_filter.install(has_host_filter=False)


def _stop(process: int) -> int:
    """End a process that may have ended by itself; its exit code, or minus the signal."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


class UnknownCalls:
    """Names the system calls that no table of ours knows, once each, on the evaluation's stderr, and refuses them: a
    package may need one of them.

    The kernel tells them to the process that holds the listener of the host's filter, and waits for the answer. That is
    the process that watches the host: it is outside, and nothing of the submission reaches it but these numbers.
    """

    def __init__(self, listener: int, stderr: int) -> None:
        self._listener, self._stderr = listener, stderr
        self._reported: set[int] = set()
        self._left = MOST_UNKNOWN_CALLS

    def refuse_next(self) -> bool:
        """Answer a call that waits; False after the last one."""
        notice = bytearray(NOTICE.size)
        with suppress(OSError):  # the caller has ended
            fcntl.ioctl(self._listener, RECEIVE, notice, True)
            number, call = NOTICE.unpack(notice)[0], NOTICE.unpack(notice)[3]
            answer = ANSWER.pack(number, 0, -errno.ENOSYS, 0)
            self._report(call)
            fcntl.ioctl(self._listener, SEND, answer)
        self._left -= 1
        if not self._left:
            os.close(self._listener)
        return self._left > 0

    def _report(self, call: int) -> None:
        if call not in self._reported:
            self._reported.add(call)
            line = f"snakes: a submission asked for system call {call} of {os.uname().machine}: unknown, so refused\n"
            os.write(self._stderr, line.encode())
