"""A plain window for a match that the caller plays: PettingZoo's render_mode "human"."""

import os
from typing import Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints nothing to our standard output

import pygame

from arena.render.frame import frame
from arena.render.window_display import open_display


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
