"""Programs run in a terminal of 100 columns, and what such a terminal shows."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from helpers.command import ROOT

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
    seen = b""
    try:
        while data := os.read(ours, 65536):
            seen += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    _, errors = child.communicate(timeout=300)
    assert child.returncode == 0, (seen, errors)
    return seen.decode(), (errors or b"").decode()


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
