"""A screen for tests: Xvfb, with xdotool for keyboard and mouse; its picture is read from memory.

with display.screen() as screen:
    process = subprocess.Popen(..., env=os.environ | screen.environment)
    window = screen.window("snakes")
    screen.press("space")
    screen.until(lambda: "paused" in screen.title(window))
    picture = screen.picture()       # [H, W, 3], what a person would see
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WIDTH, HEIGHT = 1280, 1024
PATIENCE = 200.0  # seconds for any event: a busy machine is slow
MISSING = next((f"{name} is not installed" for name in ("Xvfb", "xdotool") if not shutil.which(name)), "")


class Box(NamedTuple):
    left: int
    top: int
    width: int
    height: int


class Screen:
    """A running Xvfb."""

    def __init__(self, name: str, memory: Path) -> None:
        self.environment = {"DISPLAY": name, "SDL_AUDIODRIVER": "dummy"}
        self._memory = memory

    def until(self, condition: Callable[[], Any], what: Callable[[], str] | str = "") -> Any:
        """Wait until a condition is true; returns its value."""
        late = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < late, f"waited {PATIENCE} s in vain: {what() if callable(what) else what}"
            time.sleep(0.05)  # the condition often starts a program
        return found

    def window(self, name: str, process: subprocess.Popen) -> str:
        """The id of the window with this text in its title; it gets the keys from now on."""

        def found() -> str:
            assert process.poll() is None, process.communicate()
            # Looked up one by one: xdotool's own search by name finds nothing where X has no locales.
            windows = self._do("search", "--onlyvisible", "--class", "", check=False).split()
            titles = {window: self._do("getwindowname", window, check=False) for window in windows}
            return next((window for window, title in titles.items() if name in title), "")

        window = self.until(found, f"no window {name!r}")
        self._do("windowfocus", "--sync", window)
        return window

    def title(self, window: str) -> str:
        return self._do("getwindowname", window).strip()

    def box(self, window: str) -> Box:
        lines = self._do("getwindowgeometry", "--shell", window).splitlines()
        found = dict(line.split("=") for line in lines if "=" in line)
        return Box(*(int(found[name]) for name in ("X", "Y", "WIDTH", "HEIGHT")))

    def resize(self, window: str, width: int, height: int) -> None:
        self._do("windowsize", "--sync", window, str(width), str(height))

    def press(self, *keys: str) -> None:
        """Press keys, given by their X names: space, plus, question, Left, ... Not two between two pictures of a
        window: pygame now and then loses the letter of the second."""
        self._do("key", "--delay", "80", *keys)

    def click(self, x: int, y: int) -> None:
        self._do("mousemove", str(x), str(y), "click", "1")

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press the mouse at one place, release it at another."""
        (x, y), (to_x, to_y) = start, end
        self._do("mousemove", f"{x}", f"{y}", "mousedown", "1", "mousemove", f"{to_x}", f"{to_y}", "mouseup", "1")

    def close(self, window: str) -> None:
        """Close a window like its close button."""
        command = [sys.executable, __file__, self.environment["DISPLAY"], window]
        subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)

    def picture(self) -> Any:
        """The whole screen [H, W, 3] uint8, from the XWD file that is the memory of Xvfb."""
        import numpy as np

        data = self._memory.read_bytes()
        header = np.frombuffer(data, ">u4", 25)
        size, line, colours = int(header[0]), int(header[12]), int(header[19])
        pixels = np.frombuffer(data, np.uint8, line * HEIGHT, size + 12 * colours).reshape(HEIGHT, line // 4, 4)
        return pixels[:, :WIDTH, 2::-1]  # blue, green, red, nothing

    def _do(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["xdotool", *words], env=os.environ | self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert not check or done.returncode == 0, (words, done)
        return done.stdout


@contextmanager
def screen() -> Iterator[Screen]:
    """A new screen; skips the test if Xvfb or xdotool is missing."""
    if MISSING:
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory() as folder:
        read, write = os.pipe()
        # Without -noreset the server restarts whenever its last client (here each xdotool) disconnects, and refuses
        # connections meanwhile: sometimes that of the window itself.
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp",
             "-noreset", "-fbdir", folder],
            pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(write)
        try:
            with os.fdopen(read) as numbers:  # the server writes one when it is ready
                number = numbers.readline().strip()
            assert number, "Xvfb did not start"
            yield Screen(f":{number}", Path(folder) / "Xvfb_screen0")
        finally:
            server.terminate()
            server.wait(PATIENCE)


class _ClientMessage(ctypes.Structure):
    """XClientMessageEvent, padded to the size of an XEvent."""

    _fields_ = (
        ("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int), ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong), ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5), ("rest", ctypes.c_long * 24),
    )  # fmt: skip


def _ask_to_close(name: str, window: int) -> None:
    """The message that a window manager sends for the close button; old versions of xdotool cannot send it."""
    x = ctypes.CDLL("libX11.so.6")
    x.XOpenDisplay.restype = ctypes.c_void_p
    x.XInternAtom.restype = ctypes.c_ulong
    display = ctypes.c_void_p(x.XOpenDisplay(name.encode()))
    protocols, delete = (x.XInternAtom(display, atom, 0) for atom in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
    event = _ClientMessage(type=33, window=window, message_type=protocols, format=32)
    event.data[0] = delete
    x.XSendEvent(display, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
    x.XSync(display, 0)


if __name__ == "__main__":
    _ask_to_close(sys.argv[1], int(sys.argv[2]))
