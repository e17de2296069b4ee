"""The process of one match where there is no sandbox: a plain one, with the user's rights. See plain_host.py."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

CONNECT_SECONDS = 60.0


def main() -> tuple[BinaryIO, Callable[[bytes], object], str]:
    """Connect to the arena as the line on stdin says: what `controller.answer_requests` needs."""
    sys.argv, sys.orig_argv = [""], [""]
    settings = json.loads(sys.stdin.buffer.readline())
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (for the whole process)
    sys.path[:0] = settings["module_folders"]
    threading.Thread(target=_end_with_arena, daemon=True).start()
    channel = socket.create_connection(("127.0.0.1", settings["port"]), CONNECT_SECONDS)
    channel.settimeout(None)
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.sendall(bytes.fromhex(settings["token"]))
    os.chdir(os.path.dirname(settings["path"]))
    return channel.makefile("rb"), channel.sendall, settings["path"]


def _end_with_arena() -> None:
    """The arena keeps the other end of the pipe open, and writes nothing more."""
    while os.read(0, 1):
        pass
    os._exit(1)
