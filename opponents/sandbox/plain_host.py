"""In place of the sandbox's host, on systems without forks: every match is a plain child process, with a time limit.

It has the rights of the user, so it is started only with --uncaged. A child connects to a port on loopback, because a
socket cannot be handed to it everywhere, and shows the token that it got through its stdin. It ends with the arena.
"""

import contextlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path

from arena import system
from opponents.sandbox.environment import host_environment, module_folders
from opponents.sandbox.process import BOOT, HOST_SECONDS, ROOT, Broken, Host, MatchProcess

TOKEN_BYTES = 16
LOOK_SECONDS = 0.1  # between two looks whether a child that has not connected yet is alive
TOKEN_SECONDS = 5.0  # for a token to come


class PlainHost:
    """Starts the processes of matches; used like a Host."""

    def __init__(self, path: Path) -> None:
        self._path = path.parent.resolve() / path.name
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0
        self.end = weakref.finalize(self, _end_children, self._children)

    @property
    def is_alive(self) -> bool:
        """Whether it can still start processes."""
        return self.end.alive

    def start(self) -> MatchProcess:
        """Start the process of a match."""
        self._started += 1
        with socket.create_server(("127.0.0.1", 0)) as server:
            token = secrets.token_bytes(TOKEN_BYTES)
            try:
                child = self._start_child(server.getsockname()[1], token)
            except OSError as error:
                raise Broken(f"no process could be started: {error}") from None
            self._children[self._started] = child
            return MatchProcess(self, self._started, _accept(server, child, token))

    def stop(self, number: int) -> int | None:
        """End a process; its exit code, or None if it had to be killed."""
        child = self._children.pop(number)
        code = child.poll()
        _end_child(child)
        return code

    def _start_child(self, port: int, token: bytes) -> "subprocess.Popen[bytes]":
        folder = self._path.parent
        child = subprocess.Popen(
            [sys.executable, "-B", "-c", BOOT, str(ROOT), "plain_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),
            env=host_environment(folder, sandboxed=False),
        )
        settings = {"port": port, "token": token.hex(), "path": str(self._path)}
        line = json.dumps(settings | {"module_folders": module_folders(folder)}) + "\n"
        with contextlib.suppress(OSError):  # it has ended, which the wait for its connection finds
            child.stdin.write(line.encode())
            child.stdin.flush()
        return child


def start_host(path: Path, sandboxed: bool) -> Host | PlainHost:
    """The host of a submission's processes. CannotSandbox: this system has no sandbox. Broken: it does not start."""
    return Host(path, sandboxed) if system.HAS_FORK or sandboxed else PlainHost(path)


def _accept(server: socket.socket, child: "subprocess.Popen[bytes]", token: bytes) -> socket.socket:
    """The connection of the child: the one that shows the token."""
    deadline = time.monotonic() + HOST_SECONDS
    server.settimeout(LOOK_SECONDS)
    while child.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            channel, _ = server.accept()
            if _shows(channel, token):
                channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return channel
            channel.close()
    _end_child(child)
    raise Broken("its process could not be started")


def _shows(channel: socket.socket, token: bytes) -> bool:
    found, deadline = b"", time.monotonic() + TOKEN_SECONDS
    with contextlib.suppress(OSError):
        while len(found) < len(token) and (left := deadline - time.monotonic()) > 0:
            channel.settimeout(left)
            more = channel.recv(len(token) - len(found))
            if not more:
                break
            found += more
    return hmac.compare_digest(found, token)


def _end_children(children: "dict[int, subprocess.Popen[bytes]]") -> None:
    for child in children.values():
        _end_child(child)


def _end_child(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(OSError):
        child.stdin.close()
    child.kill()
    child.wait()
