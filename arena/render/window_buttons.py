"""The buttons of the window: one for every key, with an icon and a tooltip."""

from typing import NamedTuple

import pygame

from arena.render.layout import Layout
from arena.render.playback import Playback
from arena.render.theme import TEXT_COLOUR
from arena.render.window_sprites import text

GROUND, HOVERED, PRESSED, FAINT_EDGE = (22, 26, 35), (34, 41, 56), (52, 62, 84), (48, 55, 72)
SPEED = "speed"  # not a button: the place where the speed is shown
PLAY = " "
PLAYING, STOPPED = "M6 4h5v16h-5z M13 4h5v16h-5z", "M7 4 L20 12 L7 20z"


class Button(NamedTuple):
    """A button: the key that does the same, its icon, its tooltip."""

    key: int | str
    icon: str
    tip: str


# Icons on a grid of 24 x 24: polygons "Mx y Lx y ...z", bars "Mx yh.v.h.z", lines without z, circles "Ox y r".
BUTTONS = (
    Button(pygame.K_HOME, "M5 5h2v14h-2z M19 5 L9 12 L19 19z", "first turn (home)"),
    Button("X", "M9 8 L18 16 M18 8 L9 16 M5 5 L5 19", "just before the previous death (X)"),
    Button("B", "O14 12 5 M4 5h2v14h-2z", "just before the previous bean eaten (B)"),
    Button(",", "M16 5 L6 12 L16 19z", "one turn back (comma, left arrow)"),
    Button(PLAY, STOPPED, "pause, resume (space)"),
    Button(".", "M8 5 L18 12 L8 19z", "one turn forward (dot, right arrow)"),
    Button("b", "O10 12 5 M18 5h2v14h-2z", "just before the next bean eaten (b)"),
    Button("x", "M6 8 L15 16 M15 8 L6 16 M19 5 L19 19", "just before the next death (x)"),
    Button(pygame.K_END, "M17 5h2v14h-2z M5 5 L15 12 L5 19z", "last turn (end)"),
    Button("-", "M6 12 L18 12", "slower (-)"),
    Button(SPEED, "", ""),
    Button("+", "M6 12 L18 12 M12 6 L12 18", "faster (+)"),
    Button("p", "M13 6 L7 12 L13 18 M19 6 L13 12 L19 18", "previous match (p)"),
    Button("n", "M11 6 L17 12 L11 18 M5 6 L11 12 L5 18", "next match (n)"),
    Button("follow", "o12 12 6 M12 3 L12 8 M12 16 L12 21 M3 12 L8 12 M16 12 L21 12", "follow a snake (0 to 5)"),
    Button("o", "M12 3 L12 10 M12 14 L12 21 M3 12 L10 12 M14 12 L21 12 M9 6 L12 3 L15 6", "policies (o)"),
    Button("c", "M3 8 L8 8 L10 5 L14 5 L16 8 L21 8 L21 19 L3 19 L3 8 o12 13 3", "picture of the window (c)"),
    Button("?", "?", "help (?)"),
    Button("q", "M6 6 L18 18 M18 6 L6 18", "quit (q)"),
)


class ButtonRow:
    """Places and draws the buttons for one layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        row = pygame.Rect(layout.buttons)
        gap = max(2, row.height // 9)
        width = (row.width + gap) / len(BUTTONS)
        self._boxes = [
            pygame.Rect(round(row.left + i * width), row.top, round(width) - gap, row.height)
            for i in range(len(BUTTONS))
        ]

    def at(self, place: tuple[int, int]) -> Button | None:
        """The button under the mouse."""
        for button, box in zip(BUTTONS, self._boxes, strict=True):
            if button.key != SPEED and box.collidepoint(place):
                return button
        return None

    def draw(self, target: pygame.Surface, playback: Playback, hovered: Button | None, pressed: set[int | str]) -> None:
        """Draw all buttons; those with a key in `pressed` are switched on."""
        for button, box in zip(BUTTONS, self._boxes, strict=True):
            if button.key == SPEED:
                speed = text(f"{playback.speed:g}x", self._layout.text(0.42), TEXT_COLOUR)
                target.blit(speed, speed.get_rect(center=box.center))
                continue
            is_play = button.key == PLAY
            ground = PRESSED if button.key in pressed else HOVERED if button == hovered else GROUND
            pygame.draw.rect(target, TEXT_COLOUR if is_play else ground, box, border_radius=box.height // 4)
            if not is_play:
                pygame.draw.rect(target, FAINT_EDGE, box, 1, border_radius=box.height // 4)
            icon = button.icon
            if is_play:  # the icon is what a press does
                icon = STOPPED if playback.paused or playback.ended else PLAYING
            _draw_icon(target, icon, box, GROUND if is_play else TEXT_COLOUR)


def _draw_icon(target: pygame.Surface, icon: str, box: pygame.Rect, colour: tuple[int, int, int]) -> None:
    """Draw an icon in the middle of a box, at four times its size, then smoothed."""
    side = max(8, round(min(box.width, box.height) * 0.62))
    if icon == "?":
        sign = text("?", round(side * 0.8), colour)
        target.blit(sign, sign.get_rect(center=box.center))
        return
    scale = side * 4 / 24
    canvas = pygame.Surface((side * 4, side * 4), pygame.SRCALPHA)
    canvas.fill((*colour, 0))
    thick = max(1, round(2 * scale))
    words = icon.replace("M", " M").replace("z", " z").replace("O", " O").replace("o", " o").split()
    points: list[tuple[float, float]] = []
    i = 0
    while i < len(words):
        word = words[i]
        if word[0] in "Oo":
            x, y, radius = (float(number) * scale for number in (word[1:], words[i + 1], words[i + 2]))
            pygame.draw.circle(canvas, colour, (x, y), radius, 0 if word[0] == "O" else thick)
            i += 3
            continue
        if word == "z":
            pygame.draw.polygon(canvas, colour, points)
            points = []
            i += 1
            continue
        if word[0] == "M":
            _draw_line(canvas, colour, points, thick)
            points = []
        y_text, *moves = words[i + 1].replace("h", " h").replace("v", " v").split()
        points.append((float(word[1:]) * scale, float(y_text) * scale))
        for move in moves:
            x, y = points[-1]
            far = float(move[1:]) * scale
            points.append((x + far, y) if move[0] == "h" else (x, y + far))
        i += 2
    _draw_line(canvas, colour, points, thick)
    small = pygame.transform.smoothscale(canvas, (side, side))
    target.blit(small, small.get_rect(center=box.center))


def _draw_line(
    canvas: pygame.Surface, colour: tuple[int, int, int], points: list[tuple[float, float]], thick: int
) -> None:
    """A line with round ends and joins."""
    if len(points) > 1:
        pygame.draw.lines(canvas, colour, False, points, thick)
        for point in points:
            pygame.draw.circle(canvas, colour, point, thick / 2)
