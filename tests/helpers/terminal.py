"""Programs run in a terminal of 100 columns, and what such a terminal shows."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

from helpers.command import ROOT
from helpers.forking import Forked

LINES, COLUMNS = 40, 100


def in_terminal(
    program: str, *words: str, cwd: Path = ROOT, stderr_too: bool = False, **environment: str
) -> tuple[str, str]:
    """Output on the terminal, and on stderr if that is a pipe, of a Python program."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if stderr_too else subprocess.PIPE,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    )
    os.close(theirs)
    seen = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    _, errors = child.communicate(timeout=300)
    assert child.returncode == 0, (seen, errors)
    return seen.decode(), (errors or b"").decode()


def forked_in_terminal(call: Callable[..., int], *words: str, cwd: Path) -> str:
    """Output on the terminal of a call in a forked process, which has loaded torch."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    seen = io.BytesIO()
    reader = threading.Thread(target=lambda: seen.writelines(iter(lambda: _read(ours), b"")))
    reader.start()
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment = inherited | {"TERM": "xterm-256color"}
    process = Forked(_with_terminal, call, os.ttyname(theirs), str(cwd), *words, environment=environment)
    try:
        code = process.wait(300)
    finally:
        process.kill()
        os.close(theirs)
        reader.join()
        os.close(ours)
    assert code == 0, (seen.getvalue(), process.stderr.read())
    return seen.getvalue().decode()


def _with_terminal(call: Callable[..., int], terminal: str, cwd: str, *words: str) -> int:
    """Call in this process, whose input and output is the terminal from now on."""
    os.chdir(cwd)
    end = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        os.dup2(end, stream.fileno())
    return call(*words)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def screen(seen: str) -> list[str]:
    """The lines that a terminal shows after this output, at any width."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", seen):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif up := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(up[1] or 1)
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]
