"""Opens the display, or says in one line why that is not possible."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pygame

from arena.errors import ArenaError

INVISIBLE = ("dummy", "offscreen")  # SDL drivers whose windows are not visible
NEEDED = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")  # on Linux one of them must be set


def open_display() -> None:
    """Open the display; ArenaError if there is none. Call it before slow work, so that the error comes early."""
    # Real pixels on Windows systems that scale windows.
    os.environ.setdefault("SDL_WINDOWS_DPI_AWARENESS", "permonitorv2")
    reason = _refused()
    if reason:
        pygame.display.quit()
        raise ArenaError(
            f"no display for a window ({reason}); a recorded match can be seen without one: "
            "the command replay writes it with --gif OUT or --html OUT"
        )
    if pygame.display.get_driver() == "x11":
        # Otherwise SDL draws through OpenGL, which costs 20 ms per picture without a graphics card.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    pygame.font.init()


def _refused() -> str:
    """Why the display cannot be opened; an empty text if it can."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in NEEDED):
        return "neither DISPLAY nor WAYLAND_DISPLAY is set"
    try:
        with _silence():
            pygame.display.init()
    except pygame.error as error:
        return str(error)
    if pygame.display.get_driver() in INVISIBLE and not os.environ.get("SDL_VIDEODRIVER"):
        return f"nothing answers at DISPLAY={os.environ.get('DISPLAY', '')}"
    return ""


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress standard error: SDL writes the same error there, and our message is clearer."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
