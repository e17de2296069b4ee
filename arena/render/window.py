"""The window: recorded matches or a match in progress, with pause, speed, jumps and a scrub bar.

    watch([open_match("match.jsonl")])      # returns when the window is closed

Only this file and the other window_*.py files import pygame.
"""

import functools
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints nothing to our standard output

import pygame

from arena.files import write_atomically
from arena.render import scene
from arena.render.events import events
from arena.render.layout import Layout, first_size
from arena.render.playback import BEAN, DEATH, Playback
from arena.render.theme import STRIP_COLOUR
from arena.render.timeline import Playlist, Recordings
from arena.render.window_board import Board, Camera
from arena.render.window_buttons import Button
from arena.render.window_display import open_display
from arena.render.window_panel import Panel
from arena.render.window_sprites import forget_texts
from arena.rules import DOWN, LEFT, RIGHT, SNAKES, UP
from arena.snake_names import snake_name

if TYPE_CHECKING:
    from arena.jidi_log import JidiLog
    from arena.replay import Replay

FPS = 60
MESSAGE_SECONDS = 4.0
REST_SECONDS = 3.0  # pause before the next match starts by itself

ARROWS = {pygame.K_UP: UP, pygame.K_DOWN: DOWN, pygame.K_LEFT: LEFT, pygame.K_RIGHT: RIGHT}
# By position on the keyboard, not by letter: these four keys are neighbours on every keyboard layout.
WASD = {pygame.KSCAN_W: UP, pygame.KSCAN_S: DOWN, pygame.KSCAN_A: LEFT, pygame.KSCAN_D: RIGHT}
HELP_KEYS = ("?", "q", pygame.K_F1, pygame.K_ESCAPE)  # the only keys that act while the help covers the board


def watch(matches: "list[Replay | JidiLog]", speed: float = 1.0, fps: int = FPS) -> None:
    """Show recorded matches until the window is closed; ArenaError if there is no display."""
    show(Recordings(matches), speed, fps)


def show(playlist: Playlist, speed: float = 1.0, fps: int = FPS) -> None:
    """Show a playlist until the window is closed; ArenaError if there is no display."""
    open_display()
    try:
        Window(playlist, speed, fps).run()
    finally:
        forget_texts()
        pygame.quit()


class Window:
    """A window that shows the matches of a playlist."""

    def __init__(self, playlist: Playlist, speed: float, fps: int) -> None:
        self._playlist, self._fps = playlist, fps
        self._open = True
        self._keys = self._bound_keys()
        pygame.display.set_mode(first_size(pygame.display.get_desktop_sizes()[0]), pygame.RESIZABLE)
        self._camera = Camera()
        self._followed: int | None = None
        self._show_outputs = self._help = self._scrubbing = False
        self._resume = False  # whether the match goes on when the help is closed
        self._message, self._message_until = "", 0.0
        self._hovered: Button | None = None
        self._tip = ""  # about the place under the mouse
        self._ended_at: float | None = None
        self._title = ""
        self._drawn: tuple = ()
        self._board: Board | None = None
        self._lay_out()
        self._playback = Playback(playlist.open(0), speed)
        self._opened(0)

    def run(self) -> None:
        """Handle events and draw until the window is closed."""
        clock = pygame.time.Clock()
        while self._open:
            seconds = min(clock.tick(self._fps) / 1000, 0.1)
            for event in pygame.event.get():
                self._handle(event)
            self._tick(seconds)
            self._draw()

    # The matches

    def _opened(self, number: int) -> None:
        """Set up the display of a match that was just opened."""
        timeline = self._playback.timeline
        self._number, self._ended_at, self._message = number, None, ""
        if timeline.humans and len(timeline.turns) == 1:
            self._playback.paused = True
            self._say("press a direction to begin", for_ever=True)
        elif timeline.note:
            self._say(timeline.note)

    def _go_to(self, number: int) -> None:
        count = self._playlist.count
        if number < self._playlist.first or (count is not None and number >= count):
            self._say(f"there is no match {'before' if number < self._number else 'after'} this one")
            return
        before = self._playback
        self._playback = Playback(self._playlist.open(number), before.speed, before.paused and not before.ended)
        self._opened(number)

    # Time

    def _tick(self, seconds: float) -> None:
        playback = self._playback
        if not self._scrubbing:
            playback.tick(seconds)
        head = None
        for snake in scene.snakes(playback.timeline, playback.position, 1) if self._followed is not None else ():
            if snake.number == self._followed:
                head = snake.head
        self._camera.tick(seconds, head)
        now = time.perf_counter()
        if self._message and now > self._message_until:
            self._message = ""
        if not playback.ended:
            self._ended_at = None
        elif self._ended_at is None:
            self._ended_at = now
        elif self._playlist.endless and not playback.paused and now > self._ended_at + REST_SECONDS:
            self._go_to(self._number + 1)

    # The user

    def _bound_keys(self) -> dict[int | str, Callable[[], None]]:
        """Actions of the keys, by the letter they write or by their key code."""
        keys: dict[int | str, Callable[[], None]] = {
            " ": lambda: self._playback.toggle_pause(),
            "x": lambda: self._jump(DEATH, 1),
            "X": lambda: self._jump(DEATH, -1),
            "b": lambda: self._jump(BEAN, 1),
            "B": lambda: self._jump(BEAN, -1),
            "n": lambda: self._go_to(self._number + 1),
            "p": lambda: self._go_to(self._number - 1),
            "o": self._toggle_outputs,
            "t": self._toggle_outputs,
            "follow": self._follow_next,
            "q": self._close,
            "-": lambda: self._playback.faster(-1),
            pygame.K_HOME: lambda: self._playback.seek(0),
            pygame.K_END: lambda: self._playback.seek(len(self._playback.timeline.turns) - 1),
            pygame.K_ESCAPE: self._escape,
        }
        for several, action in (
            ((".", pygame.K_RIGHT), lambda: self._playback.step(1)),
            ((",", pygame.K_LEFT), lambda: self._playback.step(-1)),
            (("+", "="), lambda: self._playback.faster(1)),
            (("c", pygame.K_F12), self._screenshot),
            (("?", pygame.K_F1), self._toggle_help),
        ):
            keys |= dict.fromkeys(several, action)
        return keys | {str(snake): functools.partial(self._follow, snake) for snake in range(SNAKES)}

    def _handle(self, event: pygame.event.Event) -> None:
        if event.type == pygame.QUIT:
            self._close()
        elif event.type == pygame.KEYDOWN:
            key = event.unicode if event.unicode in self._keys else event.key
            if self._help and key not in HELP_KEYS:
                return
            if not self._steer(event) and key in self._keys:
                self._keys[key]()
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            self._on_click(event.pos)
        elif event.type == pygame.MOUSEMOTION:
            if self._scrubbing:
                self._playback.seek(self._panel.scrubbed(self._playback, event.pos[0]))
            self._hover(event.pos)
        elif event.type == pygame.MOUSEBUTTONUP and event.button == 1:
            self._scrubbing = False
        elif event.type in (pygame.VIDEORESIZE, pygame.WINDOWEXPOSED):
            self._drawn = ()

    def _steer(self, event: pygame.event.Event) -> bool:
        """Take a move of a human; False if the key is none. Of two humans, the first has the arrow keys.

        The first move starts the match.
        """
        timeline = self._playback.timeline
        if not timeline.humans or not (event.key in ARROWS or event.scancode in WASD):
            return False
        if event.key in ARROWS:
            timeline.steer(timeline.humans[0], ARROWS[event.key])
        else:
            timeline.steer(timeline.humans[-1], WASD[event.scancode])
        if len(timeline.turns) == 1:
            self._playback.paused, self._message = False, ""
        return True

    def _jump(self, what: str, way: int) -> None:
        if not self._playback.jump(what, way):
            self._say(f"no {'death' if what == DEATH else 'bean eaten'} {'after' if way > 0 else 'before'} this turn")

    def _close(self) -> None:
        self._open = False

    def _escape(self) -> None:
        self._close_help()
        self._followed = None

    def _toggle_help(self) -> None:
        """Show or hide the help. The match is paused while the help covers the board."""
        if self._help:
            self._close_help()
            return
        self._help, self._resume = True, not self._playback.paused
        self._playback.paused = True

    def _close_help(self) -> None:
        if self._help and self._resume:
            self._playback.paused = False
        self._help = False

    def _hover(self, place: tuple[int, int]) -> None:
        """Find the tooltip of a place: of a button, or of a turn on the scrub bar."""
        self._hovered = self._panel.buttons.at(place)
        self._tip = self._hovered.tip if self._hovered else ""
        if self._on_scrub_bar(place):
            timeline = self._playback.timeline
            turn = min(max(self._panel.scrubbed(self._playback, place[0]), 0), len(timeline.turns) - 1)
            red, blue = timeline.team_scores(turn)
            near = [event.text for event in events(timeline) if abs(event.turn - turn) <= 1]
            self._tip = "; ".join([f"turn {timeline.turns[turn].state['turn']}: {red} : {blue}", *near])

    def _on_scrub_bar(self, place: tuple[int, int]) -> bool:
        return pygame.Rect(self._layout.scrub).inflate(0, self._layout.cell // 3).collidepoint(place)

    def _on_click(self, place: tuple[int, int]) -> None:
        button = self._panel.buttons.at(place)
        if button is not None and (not self._help or button.key in HELP_KEYS):
            self._keys[button.key]()
        if self._on_scrub_bar(place) and not self._help:
            self._scrubbing = True
            self._playback.seek(self._panel.scrubbed(self._playback, place[0]))
        for snake, chip in enumerate(self._panel.chips):
            if chip.collidepoint(place):
                self._follow(snake)

    def _follow(self, snake: int) -> None:
        self._followed = None if self._followed == snake else snake

    def _follow_next(self) -> None:
        """Follow the first snake, then the others one after the other, then none."""
        following = -1 if self._followed is None else self._followed
        self._followed = following + 1 if following + 1 < SNAKES else None

    def _toggle_outputs(self) -> None:
        self._show_outputs = not self._show_outputs
        if self._show_outputs and not any(turn.policy_outputs for turn in self._playback.timeline.turns):
            self._say("no policy plays here, or its probabilities were not recorded")

    def _screenshot(self) -> None:
        """Write a picture of the window, without the message line, into the working directory."""
        self._paint(message="")
        turn = self._playback.timeline.turns[self._playback.index].state["turn"]
        path, number = Path(f"snakes_turn{turn:03}.png"), 1
        while path.exists():
            number += 1
            path = Path(f"snakes_turn{turn:03}_{number}.png")
        try:
            picture = io.BytesIO()
            pygame.image.save(pygame.display.get_surface(), picture, path.name)  # the name says the format
            write_atomically(path, picture.getvalue())
        except (pygame.error, OSError) as error:
            self._say(f"cannot write {path.absolute()}: {error}")
        else:
            self._say(f"picture: {path.absolute()}")
            print(path, flush=True)

    def _say(self, message: str, for_ever: bool = False) -> None:
        self._message = message
        self._message_until = float("inf") if for_ever else time.perf_counter() + MESSAGE_SECONDS

    # Pictures

    def _lay_out(self) -> None:
        """Make layout, board and panel for the present size of the window."""
        self._layout = Layout(*pygame.display.get_window_size())
        if self._board is None or self._board.cell != self._layout.cell:
            self._board = Board(self._layout.cell)
        self._panel = Panel(self._layout, self._board)

    def _draw(self) -> None:
        """Draw the present picture, unless it is on the screen already."""
        playback = self._playback
        if self._layout.size != pygame.display.get_window_size():
            self._lay_out()
        shown = (
            self._number, playback.position, len(playback.timeline.turns), playback.standing, playback.speed,
            playback.paused, playback.ended, self._followed, self._show_outputs, self._help, self._message,
            self._hovered, self._tip, *self._camera.shift, self._layout.size,
        )  # fmt: skip
        if shown == self._drawn:
            return
        self._drawn = shown
        self._paint(self._message or self._tip)
        pygame.display.flip()
        title = self._described()
        if title != self._title:
            self._title = title
            pygame.display.set_caption(title)

    def _paint(self, message: str) -> None:
        target, playback = pygame.display.get_surface(), self._playback
        target.fill(STRIP_COLOUR)
        self._panel.draw_head(target, playback, self._about(), self._followed)
        box = pygame.Rect(self._layout.board).clip(target.get_rect())
        ringed = {*playback.timeline.humans, *([] if self._followed is None else [self._followed])}
        self._board.draw(target.subsurface(box), playback, self._camera, self._show_outputs, ringed)
        on = {"o": self._show_outputs, "?": self._help, "follow": self._followed is not None}
        self._panel.draw_foot(target, playback, self._hovered, {key for key, is_on in on.items() if is_on})
        if playback.ended:
            self._panel.draw_result(target, playback)
        if self._help:
            self._panel.draw_help(target, bool(playback.timeline.humans))
        elif message:  # it would hide the last line of the help
            self._panel.draw_message(target, message)

    def _place(self) -> str:
        """The number of the match, if there are several."""
        count = self._playlist.count
        if count == 1 or (count is None and self._number == 0):
            return ""
        return f"match {self._number + 1}" + (f" of {count}" if count else "")

    def _about(self) -> str:
        """The line below the turn: number of the match, seed and date."""
        timeline = self._playback.timeline
        seed = "" if timeline.seed is None else f"seed {timeline.seed}"
        return "  ".join(filter(None, (self._place() or seed, timeline.date)))

    def _described(self) -> str:
        """The title of the window: turn, state, speed and players."""
        playback = self._playback
        state = "over" if playback.ended else "paused" if playback.paused else "playing"
        if playback.paused and not playback.standing:
            state = "moving" if playback.moving else "between turns"
        parts = [f"turn {playback.timeline.turns[playback.index].state['turn']}", state, f"{playback.speed:g}x"]
        if self._place():
            parts.append(self._place())
        if self._followed is not None:
            parts.append(f"following {snake_name(self._followed)}")
        return f"{', '.join(parts)} - {playback.timeline.red} against {playback.timeline.blue} - snakes"
