"""Fonts of pictures and of the window: Chinese names are letters, each its own, and no boxes."""

import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from helpers.viewed import MATCH

from arena.render import fonts
from arena.render.fonts import CHINESE_FONT, PILLOW_FONT, font_file, font_for
from arena.render.frame import Film
from arena.render.timeline import Timeline, Turn
from marl.pictures import league_table, learning_curve
from opponents.round_robin import Table

# As long as each other: as boxes they would be equal pictures. 鑫 and 婷 are of the second half of GB 2312.
NAMES = ("李四/submission.py", "王五/submission.py", "鑫婷/submission.py")


@pytest.fixture(autouse=True)
def no_fonts_of_the_system(monkeypatch):
    """Pictures must be right on a machine without any fonts."""
    monkeypatch.setattr(fonts, "SYSTEM_FONTS", ())
    font_file.cache_clear()
    yield
    font_file.cache_clear()


def film(name: str) -> np.ndarray:
    return Film(Timeline(name, "blue", [Turn(MATCH)]), 24).picture(0)


def curve(name: str) -> np.ndarray:
    return np.asarray(learning_curve.draw(name, [{"step": 1, f"eval/win_rate_{name}": 0.5}]))


def league(name: str) -> np.ndarray:
    wins = np.array([[0, 6], [4, 0]])
    ratings, margins = np.array([40.0, -40.0]), np.array([9.0, 9.0])
    table = Table((name, "level0"), 10, wins, np.zeros_like(wins), ratings, margins)
    return np.asarray(league_table.draw(table))


def window(name: str) -> np.ndarray:
    import pygame

    from arena.render import window_sprites

    pygame.font.init()
    try:
        return pygame.surfarray.array_alpha(window_sprites.text(name, 24, (255, 255, 255)))
    finally:
        window_sprites.forget_texts()
        pygame.quit()


@pytest.mark.parametrize("draw", [film, curve, league, window])
def test_chinese_names_differ_in_every_picture(draw):
    pictures = [draw(name) for name in NAMES]
    for one, other in combinations(range(len(NAMES)), 2):
        assert not np.array_equal(pictures[one], pictures[other]), (NAMES[one], NAMES[other])


def test_the_font_has_all_of_gb_2312():
    codes = (bytes((row, column)) for row in range(0xB0, 0xF8) for column in range(0xA1, 0xFF))
    characters = [code.decode("gb2312", errors="ignore") for code in codes]
    characters = [character for character in characters if character]
    assert len(characters) == 6763
    assert font_file("".join(characters) + "，。！（）", CHINESE_FONT) == CHINESE_FONT
    font = font_for(NAMES[0], 24)
    box = bytes(font.getmask("\uffff"))
    assert [character for character in characters if bytes(font.getmask(character)) == box] == []


def test_letters_that_the_usual_font_has_stay_in_it():
    assert font_file("level0 100 % ± 3", PILLOW_FONT) == PILLOW_FONT
    assert font_file(NAMES[0], PILLOW_FONT) == CHINESE_FONT


def test_a_letter_of_no_font_leaves_the_others_readable():
    assert font_file("李四\U0001f40d", PILLOW_FONT) == CHINESE_FONT
    assert font_file("ab\U0001f40d", PILLOW_FONT) == PILLOW_FONT


def test_the_system_has_letters_that_ours_lack(monkeypatch, tmp_path):
    """A stand-in for a font of the system: ours, under another name, while ours is the one with Latin letters only."""
    other = tmp_path / "system.otf"
    other.write_bytes(Path(CHINESE_FONT).read_bytes())
    monkeypatch.setattr(fonts, "CHINESE_FONT", PILLOW_FONT)
    monkeypatch.setattr(fonts, "SYSTEM_FONTS", (str(tmp_path / "missing.ttf"), str(other)))
    assert font_file(NAMES[0], PILLOW_FONT) == str(other)


def test_the_licence_is_beside_the_font():
    licence = Path(CHINESE_FONT).with_name("noto_sans_sc_OFL.txt").read_text("utf-8")
    assert "SIL OPEN FONT LICENSE" in licence
    assert Path(CHINESE_FONT).stat().st_size < 2_000_000


def test_a_machine_without_a_list_of_fonts_is_no_reason_to_warn(monkeypatch, recwarn):
    import pygame

    from arena.render import window_sprites

    monkeypatch.setattr(pygame.font, "match_font", lambda *_, **__: warnings.warn("'fc-list' is missing", stacklevel=2))
    assert window_sprites._usual_font.__wrapped__() == window_sprites.PYGAME_FONT
    assert not recwarn.list
