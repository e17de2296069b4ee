"""The window on a real screen, with keys and mouse."""

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pygame
import pytest
from helpers import display
from PIL import Image

from arena.jidi_log import open_match
from arena.render.frame import frame
from arena.render.layout import Layout
from arena.render.theme import SNAKE_COLOURS
from arena.render.window import Window, watch
from arena.render.window_buttons import BUTTONS, ButtonRow
from arena.replay import Replay, write
from arena.rules import ROWS

# runs without POSIX
SEED = 11
FPS = 20  # fewer pictures a second than a person wants: they take most of the time
BOUND = Window._bound_keys(object.__new__(Window))
# The window adds numbers on heads; the picture of the turn before or after differs by over 5 %.
TOLERANCE = 0.02


def random_match(number: int) -> Replay:
    actions = np.random.default_rng(SEED + number).integers(0, 4, (200, 6))
    return Replay.from_actions(SEED, number, None, actions, red=f"dice {number}", blue="coins")


class Shown:
    """A window that shows two matches, and the actions of a user."""

    def __init__(self, screen: display.Screen, process: Any, folder: Path, matches: list[Replay]) -> None:
        self.screen, self.folder, self.matches = screen, folder, matches
        self.id = screen.window("snakes", process)
        self.states = matches[0].states()
        self.died = [turn["turn"] for turn in matches[0].turns if "died" in turn]
        self.ate = [turn["turn"] for turn in matches[0].turns if "ate" in turn]
        screen.until(lambda: self.turn() >= 1, "it did not begin to play")

    def title(self) -> str:
        return self.screen.title(self.id)

    def turn(self) -> int:
        return int(re.search(r"turn (\d+)", self.title())[1])

    def layout(self) -> Layout:
        return Layout(*self.screen.box(self.id)[2:])

    def wait_for(self, *parts: str) -> None:
        self.screen.until(lambda: all(part in self.title() for part in parts), lambda: f"{parts} in {self.title()!r}")

    def press(self, *keys: str) -> None:
        self.screen.press(*keys)

    def stand_at_start(self) -> None:
        """The start of every test: first match, turn 0, paused, speed 1, nothing followed, no help."""
        self.press("p", "Escape", "Home", "period", "Home")
        self.wait_for("turn 0, paused", "match 1 of 2")
        for _ in range(20):
            speed = float(re.search(r"([\d.]+)x", self.title())[1])
            if speed == 1:
                break
            self.press("plus" if speed < 1 else "minus")
            self.screen.until(lambda before=f" {speed:g}x": before not in self.title())
        self.wait_for("turn 0, paused, 1x, match 1 of 2 - ")

    def board(self) -> np.ndarray:
        """The board on the screen."""
        window, part = self.screen.box(self.id), self.layout().board
        top, left = window.top + part.top, window.left + part.left
        return self.screen.picture()[top : top + part.height, left : left + part.width]

    def wait_for_picture(self, state: dict, shift: tuple[float, float] = (0, 0)) -> None:
        """Wait until the board equals the picture of frame(), shifted by some cells."""
        cell = self.layout().cell
        drawn = frame(state, cell)[-ROWS * cell :]
        drawn = np.roll(drawn, [round(cells * cell) for cells in shift], (0, 1))
        self.screen.until(lambda: unlike(self.board(), drawn) < TOLERANCE, lambda: f"{unlike(self.board(), drawn):.3f}")


def unlike(one: np.ndarray, other: np.ndarray) -> float:
    """The share of clearly different pixels."""
    return float((np.abs(one.astype(int) - other).max(-1) > 40).mean()) if one.shape == other.shape else 1.0


def watch_in(folder: str, *files: str) -> int:
    """The window, in a process of its own."""
    os.chdir(folder)
    watch([open_match(file) for file in files], fps=FPS)
    return 0


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    matches = [random_match(number) for number in range(2)]
    files = [folder / f"match{number}.jsonl" for number in range(2)]
    for file, match in zip(files, matches, strict=True):
        write(file, match)
    with display.screen() as screen:
        from helpers.forking import Forked

        process = Forked(watch_in, str(folder), *map(str, files), environment=os.environ | screen.environment)
        try:
            yield Shown(screen, process, folder, matches)
            screen.press("q")
            _, errors = process.communicate(timeout=display.PATIENCE)
            assert (process.returncode, errors) == (0, "")
        finally:
            process.kill()


def test_pictures_in_motion_are_never_empty(shown):
    """All six snakes are on the screen at any moment; none of them dies before turn 28."""
    shown.stand_at_start()
    assert "dice 0 against coins" in shown.title()
    shown.press("space")
    shown.wait_for("playing")
    for turn in range(1, 5):
        shown.screen.until(lambda turn=turn: shown.turn() >= turn)
        board = shown.board().reshape(-1, 3)
        for snake, colour in enumerate(SNAKE_COLOURS):
            near = (np.abs(board.astype(int) - colour).max(-1) < 60).sum()
            assert near > 250, f"snake {snake} after turn {turn}"


def test_pause_and_single_steps(shown):
    shown.stand_at_start()
    shown.press("space")
    shown.screen.until(lambda: shown.turn() >= 1)
    shown.press("space")
    shown.screen.until(lambda: "playing" not in shown.title())
    turn = shown.turn()
    shown.press("period")
    shown.wait_for(f"turn {turn + 1}, paused")
    shown.wait_for_picture(shown.states[turn + 1])
    shown.press("Right", "Right", "Right")
    shown.wait_for(f"turn {turn + 4}, paused")
    shown.press("comma", "Left")
    shown.wait_for(f"turn {turn + 2}, paused")
    shown.wait_for_picture(shown.states[turn + 2])


def test_speed_goes_from_a_quarter_to_64(shown):
    shown.stand_at_start()
    for key, speeds in (("minus", "0.5 0.25 0.25"), ("plus", "0.5 1 2 4 8 16 32 64 64")):
        for speed in speeds.split():
            shown.press(key)
            shown.wait_for(f", {speed}x,")
    shown.press("space")
    shown.wait_for("turn 200, over, 64x")
    shown.press("Home")
    shown.wait_for("playing")


def test_jumps_to_right_before_deaths_and_beans(shown):
    shown.stand_at_start()
    later = [turn - 1 for turn in shown.died if turn > 1]
    for turn in later[:2]:
        shown.press("x")
        shown.wait_for(f"turn {turn}, paused")
    shown.press("X")
    shown.wait_for(f"turn {later[0]}, paused")
    shown.press("End", "B")
    shown.wait_for(f"turn {shown.ate[-1] - 1}, paused")
    shown.press("Home", "b")
    shown.wait_for(f"turn {next(turn for turn in shown.ate if turn > 1) - 1}, paused")


def test_the_scrub_bar_goes_to_the_turn_under_the_mouse(shown):
    shown.stand_at_start()
    window, track = shown.screen.box(shown.id), shown.layout().scrub
    y = window.top + track.top + track.height // 2

    def at(turn):
        return window.left + track.left + round(track.width * turn / 200), y

    shown.screen.click(*at(50))
    shown.wait_for("turn 50, paused")
    shown.screen.drag(at(50), at(123))
    shown.wait_for("turn 123, paused")
    shown.wait_for_picture(shown.states[123])


def test_every_key_has_a_button(shown):
    shown.stand_at_start()
    window, row = shown.screen.box(shown.id), ButtonRow(shown.layout())
    places = {button.key: box.center for button, box in zip(BUTTONS, row._boxes, strict=True)}
    last, first_death = len(shown.states) - 1, next(turn for turn in shown.died if turn > 1) - 1
    first_bean = next(turn for turn in shown.ate if turn > 1) - 1
    for key, told in (
        ("+", ", 2x,"), ("-", ", 1x,"), ("x", f"turn {first_death},"), (pygame.K_HOME, "turn 0,"),
        ("b", f"turn {first_bean},"), (pygame.K_END, f"turn {last}, over"), ("X", f"turn {shown.died[-1] - 1},"),
        (".", f"turn {shown.died[-1]},"), (",", f"turn {shown.died[-1] - 1},"), ("B", "turn "),
        ("n", "match 2 of 2"), ("p", "match 1 of 2"), ("follow", "following snake 0"), (" ", "playing"),
    ):  # fmt: skip
        x, y = places[key]
        assert row.at((x, y)).key == key
        shown.screen.click(window.left + x, window.top + y)
        shown.wait_for(told)
    assert set(places) >= {"o", "c", "?", "q"}
    assert set(places) - {"speed"} <= set(BOUND)


def test_a_screenshot_is_what_the_frame_renderer_draws(shown):
    shown.stand_at_start()
    shown.press("period", "period", "period")
    shown.wait_for("turn 3, paused")
    shown.press("c")
    path = shown.folder / "snakes_turn003.png"
    shown.screen.until(path.exists)
    picture = np.asarray(Image.open(path).convert("RGB"))
    layout = shown.layout()
    assert picture.shape[:2] == layout.size[::-1]
    left, top, width, height = layout.board
    board = picture[top : top + height, left : left + width]
    share = {turn: unlike(board, frame(shown.states[turn], layout.cell)[-height:]) for turn in (2, 3, 4)}
    assert share[3] < TOLERANCE < min(share[2], share[4]), share
    shown.press("c")
    shown.screen.until((shown.folder / "snakes_turn003_2.png").exists)


def test_following_a_snake_keeps_its_head_in_the_middle(shown):
    shown.stand_at_start()
    for key, snake in (("3", 3), ("5", 5)):
        shown.press(key)
        shown.wait_for(f"following snake {snake}")
        row, column = shown.states[0]["snakes"][snake][0]
        shown.wait_for_picture(shown.states[0], (4.5 - row, 9.5 - column))
    shown.press("5")
    shown.wait_for_picture(shown.states[0])
    assert "following" not in shown.title()


def test_other_matches_by_n_and_p(shown):
    shown.stand_at_start()
    shown.press("n")
    shown.wait_for("match 2 of 2", "dice 1")
    shown.press("period", "n", "period")
    shown.wait_for("turn 2, paused", "match 2 of 2")
    shown.wait_for_picture(shown.matches[1].states()[2])
    shown.press("p")
    shown.wait_for("turn 0, paused", "match 1 of 2", "dice 0")


def test_help_covers_the_board_and_goes_away(shown):
    shown.stand_at_start()
    shown.wait_for_picture(shown.states[0])
    before = shown.board()
    for on, off in (("question", "question"), ("F1", "Escape")):
        shown.press(on)
        shown.screen.until(lambda: unlike(shown.board(), before) > 0.05)
        shown.press(off)
        shown.screen.until(lambda: unlike(shown.board(), before) < 0.001)


@pytest.mark.parametrize("is_open", [True, False])
def test_no_message_hides_the_help(monkeypatch, is_open):
    """Such as "press a direction to begin", which is there as long as the human waits."""
    drawn = []
    panel = SimpleNamespace(
        draw_head=lambda *_: None,
        draw_foot=lambda *_: None,
        draw_help=lambda *_: drawn.append("help"),
        draw_message=lambda _, words: drawn.append(words),
    )
    window = object.__new__(Window)
    vars(window).update(
        _panel=panel, _board=SimpleNamespace(draw=lambda *_: None), _layout=Layout(400, 300), _camera=None,
        _playback=SimpleNamespace(ended=False, timeline=SimpleNamespace(humans=(0,))), _hovered=None, _followed=None,
        _show_outputs=False, _help=is_open, _about=lambda: "",
    )  # fmt: skip
    monkeypatch.setattr(pygame.display, "get_surface", lambda: pygame.Surface((400, 300)))
    window._paint("press a direction to begin")
    assert drawn == (["help"] if is_open else ["press a direction to begin"])


def test_help_pauses_the_match_and_it_goes_on_afterwards(shown):
    shown.stand_at_start()
    shown.press("space")
    shown.wait_for("playing")
    shown.press("question")
    shown.screen.until(lambda: "playing" not in shown.title())
    turn = shown.turn()
    shown.press("space", "x", "n", "Right")  # hidden behind the help: without effect
    time.sleep(1)
    assert f"turn {turn}, " in shown.title()
    assert "playing" not in shown.title()
    shown.press("Escape")
    shown.wait_for("playing", "match 1 of 2")
    shown.stand_at_start()
    shown.press("question", "question")
    time.sleep(0.5)
    shown.wait_for("turn 0, paused")  # it was paused before


def test_the_window_can_have_any_size(shown):
    shown.stand_at_start()
    first = shown.screen.box(shown.id)
    for width, height in ((700, 600), (1280, 500), (first.width, first.height)):
        shown.screen.resize(shown.id, width, height)
        shown.wait_for_picture(shown.states[0])
