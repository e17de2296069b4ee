"""The display: opened, or in one line why that is not possible; and a plain window for a match that the caller plays,
PettingZoo's render_mode "human"."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints nothing to our standard output

import pygame

from arena.errors import ArenaError
from arena.render.frame import frame

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


class LiveWindow:
    """Shows one state after another at a steady rate. Closing it ends the display, not the match."""

    def __init__(self, fps: int) -> None:
        open_display()
        self._fps, self._clock = fps, pygame.time.Clock()
        self._screen: pygame.Surface | None = None
        self._closed = False

    def show(self, match: dict[str, Any]) -> None:
        """Show the match; waits until the next picture is due."""
        if self._closed:
            return
        picture = frame(match)
        size = picture.shape[1], picture.shape[0]
        if self._screen is None:
            self._screen = pygame.display.set_mode(size, pygame.RESIZABLE)
            pygame.display.set_caption("snakes")
        surface = pygame.image.frombuffer(picture.tobytes(), size, "RGB")
        if self._screen.get_size() != size:
            surface = pygame.transform.smoothscale(surface, self._screen.get_size())
        self._screen.blit(surface, (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()

    def close(self) -> None:
        """Close the window and the display."""
        self._closed = True
        pygame.quit()
