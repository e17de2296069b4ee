"""The arena's side of the sandbox: the host that starts processes, and the channel to the process of one match.

Nothing that comes out of a match's process is trusted: an answer is at most ANSWER_BYTES long, must be a JSON list of a
snake and a move or text, and only the kernel's word counts for the process's identity and its CPU time.
"""

import functools
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from arena import system
from opponents.sandbox.controller import HEADER, HELLO, MOVES, TEXT_LENGTH
from opponents.sandbox.environment import host_environment, module_folders
from opponents.sandbox.protocol import CODE, COMMAND, READY, SETTINGS_SIZE, START, STATE_BYTES, STOP

ANSWER_BYTES = 4096
READ_BYTES = 1 << 16
HOST_SECONDS = 120.0  # to import the submission's packages
STOP_SECONDS = 60.0
DISTURBED = "closed or disturbed its pipe to the arena"
CREDENTIALS = struct.Struct("3i")  # process, user, group
ROOT = Path(__file__).resolve().parents[2]
# Only this package is imported from our folder, and nothing from the working folder, the path's first entry: a folder
# of a stranger that lies there may have the name of a package of Python's, which would run outside the sandbox.
# The words after our folder: the module of this package with the function `main`, and what that is called with.
BOOT = """
import os, sys
root, module, *words = sys.argv[1:]
sys.path = [folder for folder in sys.path if folder not in ("", root)]
import importlib, importlib.util
package = os.path.join(root, "opponents")
places = {"submodule_search_locations": [package]}
spec = importlib.util.spec_from_file_location("opponents", os.path.join(package, "__init__.py"), **places)
sys.modules["opponents"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["opponents"])
from opponents.sandbox import controller
try:
    match = importlib.import_module("opponents.sandbox." + module).main(*words)
    answer_requests = controller.answer_requests
    del controller, root, module, words, package, places, spec
    answer_requests(*match)
finally:
    os._exit(0)  # not sys.exit: that would wait for threads of the submission
"""


# Where the system has it, poll: select takes no file numbers from 1024.
Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def _readable(channel: "socket.socket | MatchProcess", seconds: float) -> bool:
    """Whether there is something to read, or the other side is gone."""
    with Selector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _duplicate_of_stderr() -> int:
    """For what the watching process has to tell; what the sandbox prints goes nowhere."""
    try:
        return os.dup(sys.__stderr__.fileno())
    except (AttributeError, OSError, ValueError):  # there is none
        return os.open(os.devnull, os.O_WRONLY)


class Broken(Exception):
    """The process or the host cannot be used any more; the text says why."""


class CannotSandbox(Exception):
    """The system refuses what the sandbox needs; the text says what."""


class Host:
    """The host's process; see host.py."""

    def __init__(self, path: Path, sandboxed: bool) -> None:
        if not system.HAS_FORK:
            raise CannotSandbox("it needs Linux on x86_64 or aarch64")
        self._control, theirs = socket.socketpair()
        folder = path.parent.resolve()
        # In the sandbox there is no home folder whose packages could be imported.
        flags = ("-B", "-s") if sandboxed else ("-B",)
        stderr = _duplicate_of_stderr()
        try:
            child = subprocess.Popen(
                [sys.executable, *flags, "-c", BOOT, str(ROOT), "host", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), stderr],
                cwd="/",
                env=host_environment(folder, sandboxed),
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            raise Broken(f"no process could be started: {error}") from None
        finally:
            theirs.close()
            os.close(stderr)
        self.end = weakref.finalize(self, _end_host, child, self._control, os.getpid())
        self._started = 0
        settings = {"path": str(folder / path.name), "sandboxed": sandboxed, "arena": os.getpid(), "stderr": stderr}
        text = json.dumps(settings | {"module_folders": module_folders(folder)}).encode()
        with suppress(OSError):  # it has ended, which the next lines find
            self._control.sendall(SETTINGS_SIZE.pack(len(text)) + text)
        state = self._read(STATE_BYTES, HOST_SECONDS).rstrip(b"\0")
        if state != READY:
            self.end()
            if sandboxed and state:
                raise CannotSandbox(state.decode(errors="replace"))
            raise Broken("its process could not be started")

    @property
    def is_alive(self) -> bool:
        """Whether the host can still start processes."""
        return self.end.alive and not _readable(self._control, 0)

    def start(self) -> "MatchProcess":
        """Start the process of a match."""
        ours, theirs = socket.socketpair()
        self._started += 1
        # Before the other end is given away: a process that sends earlier than this would have the identity 0.
        process = MatchProcess(self, self._started, ours)
        try:
            socket.send_fds(self._control, [COMMAND.pack(START, self._started)], [theirs.fileno()])
        except OSError:
            ours.close()
            raise Broken("its process could not be started") from None
        finally:
            theirs.close()
        return process

    def stop(self, number: int) -> int | None:
        """End a process; its exit code, minus a signal if that ended it, or None if the host is gone."""
        with suppress(OSError):
            self._control.sendall(COMMAND.pack(STOP, number))
            answer = self._read(CODE.size, STOP_SECONDS)
            if len(answer) == CODE.size:
                return CODE.unpack(answer)[0]
        self.end()
        return None

    def _read(self, size: int, seconds: float) -> bytes:
        """A packet of the host; what there is of it if the host is gone or takes too long."""
        found, deadline = b"", time.monotonic() + seconds
        while len(found) < size:
            self._control.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = self._control.recv(size - len(found))
            except OSError:
                break
            if not more:
                break
            found += more
        self._control.settimeout(None)
        return found


def _end_host(child: subprocess.Popen, control: socket.socket, owner: int) -> None:
    if os.getpid() != owner:  # this is a fork of the arena; the child belongs to the original
        return
    with suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)  # the host ends its processes, and then itself
    control.close()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for a group that has ended
            os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the id still belongs to the child
        child.wait()


class Starter(Protocol):
    """What a process needs of the host that has started it."""

    end: weakref.finalize

    def stop(self, number: int) -> int | None: ...


class MatchProcess:
    """The process of one match."""

    def __init__(self, host: "Starter", number: int, channel: socket.socket) -> None:
        self.host = host
        self.cpu_at_answer = 0.0  # seconds of CPU time when the last answer came
        self._number = number
        self._channel = channel
        self._channel.setblocking(False)  # a process that does not read must not block the arena
        self._unsent = bytearray()
        self._unread = bytearray()
        self._pid: int | None = None
        self._ending: str | None = None
        if hasattr(socket, "SO_PASSCRED") and channel.family == socket.AF_UNIX:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def fileno(self) -> int:
        """The channel's number, for poll."""
        return self._channel.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether part of a request waits until the process reads."""
        return bool(self._unsent)

    def trouble(self) -> str | None:
        """The reason why the process cannot be used, or None. Called when no answer is expected."""
        return self.end() if self._unread or _readable(self._channel, 0) else None

    def post(self, request: dict[str, Any]) -> None:
        """Send a request as far as possible; `send` sends the rest."""
        text = json.dumps(request, separators=(",", ":")).encode()
        self._unsent += HEADER.pack(len(text)) + text
        self.send()

    def send(self) -> None:
        """Go on with sending."""
        try:
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # the process has ended; its last answers are read first
            self._unsent.clear()

    def read(self) -> None:
        """Read what there is; Broken if the process has closed its end."""
        try:
            more, aside = self._receive()
        except BlockingIOError:
            return
        except OSError:
            more, aside = b"", []
        if not more:
            raise Broken(self.end())
        self._unread += more
        if self._pid is None:  # the first answer comes before any code of the submission runs
            for level, kind, data in aside:
                if (level, kind) == (socket.SOL_SOCKET, getattr(socket, "SCM_CREDENTIALS", None)):
                    self._pid = CREDENTIALS.unpack(data[: CREDENTIALS.size])[0] or None

    def _receive(self) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        """Bytes, and what the kernel says about their sender."""
        if not hasattr(self._channel, "recvmsg"):
            return self._channel.recv(READ_BYTES), []
        # Open files that come along are dropped: there is room for the sender's identity only.
        return self._channel.recvmsg(READ_BYTES, socket.CMSG_SPACE(CREDENTIALS.size))[:2]

    def next_answer(self, snake: int) -> int | str | None:
        """The answer for this snake: a move, or the text of a problem; None if it has not come yet."""
        if len(self._unread) < HEADER.size:
            return None
        end = HEADER.size + HEADER.unpack_from(self._unread)[0]
        if end > ANSWER_BYTES:
            raise Broken(DISTURBED)
        if len(self._unread) < end:
            return None
        text, self._unread = bytes(self._unread[HEADER.size : end]), self._unread[end:]
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, list) and len(answer) == 2 and type(answer[0]) is int and answer[0] == snake:
            result = answer[1]
            if isinstance(result, str) or (type(result) is int and 0 <= result < MOVES):
                self.cpu_at_answer = self.cpu_seconds() or 0.0
                return result[:TEXT_LENGTH] if isinstance(result, str) else result
        raise Broken(DISTURBED)

    def cpu_seconds(self) -> float | None:
        """CPU time of all its threads so far, by the kernel; None if that cannot be had."""
        if self._pid is None or sys.platform != "linux":
            return None
        try:
            return time.clock_gettime(~self._pid << 3 | 2)  # Linux's clock of a process
        except OSError:
            return None

    def end(self) -> str:
        """End the process; tells how it ended."""
        if self._ending is None:
            self._channel.close()
            self._ending = _ending(self.host.stop(self._number) if self.host.end.alive else None)
        return self._ending


def _ending(code: int | None) -> str:
    if code is None or -code == system.SIGKILL:  # sent by the host, or by the system when memory ran out
        return f"{DISTURBED}, or was killed"
    return f"ended its process (exit code {code})" if code >= 0 else f"crashed (signal {-code})"


@functools.cache
def why_not_sandboxed() -> str | None:
    """Why this system cannot sandbox a submission; None if it can. Tried once, with a process that does nothing."""
    try:
        host = Host(Path(__file__), sandboxed=True)
    except (Broken, CannotSandbox) as error:
        return str(error)
    try:
        process = host.start()
        _readable(process, HOST_SECONDS)
        process.read()
        return None if process.next_answer(HELLO) == 0 else "no answer from it"
    except Broken as error:
        return str(error)
    finally:
        host.end()
