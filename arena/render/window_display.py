"""The way to the display: opened, or the reason why not in one line."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pygame

from arena.errors import ArenaError

NOT_SEEN = ("dummy", "offscreen")  # drivers of SDL whose windows nobody can see
NEEDED = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")  # on Linux, one of them


def open_display() -> None:
    """Get hold of the display; ArenaError if there is none. Can be called early, before anything slow is done."""
    # Real pixels instead of stretched ones, where the system scales windows.
    os.environ.setdefault("SDL_WINDOWS_DPI_AWARENESS", "permonitorv2")
    reason = _refused()
    if reason:
        pygame.display.quit()
        raise ArenaError(
            f"no display for a window ({reason}); a recorded match can be seen without one: "
            "snakes replay FILE --gif OUT, or --html OUT"
        )
    if pygame.display.get_driver() == "x11":
        # Otherwise SDL takes a detour over OpenGL, which without a graphics card costs 20 ms per picture.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    pygame.font.init()


def _refused() -> str:
    """Why the display cannot be had; nothing if it can."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in NEEDED):
        return "neither DISPLAY nor WAYLAND_DISPLAY is set"
    try:
        with _silence():
            pygame.display.init()
    except pygame.error as error:
        return str(error)
    if pygame.display.get_driver() in NOT_SEEN and not os.environ.get("SDL_VIDEODRIVER"):
        return f"nothing answers at DISPLAY={os.environ.get('DISPLAY', '')}"
    return ""


@contextmanager
def _silence() -> Iterator[None]:
    """SDL itself writes to standard error what we say better."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
