"""Fonts of pictures: the usual one, and for letters that it lacks one with Chinese characters, or one of the system."""

import functools
from pathlib import Path

from PIL import ImageFont
from PIL.ImageFont import FreeTypeFont

PILLOW_FONT = ""  # the font inside Pillow, which is no file
# Latin, Greek, Cyrillic, kana, and the 6,763 Chinese characters of GB 2312; scripts/make_font.py makes it.
CHINESE_FONT = str(Path(__file__).with_name("noto_sans_sc.otf"))
# Of Linux, macOS and Windows, for letters that none of ours has: Pillow finds them by these names.
SYSTEM_FONTS = ("NotoSansCJK-Regular.ttc", "wqy-microhei.ttc", "Arial Unicode.ttf", "msyh.ttc", "DejaVuSans.ttf")
PROBE_PIXELS = 24


def font_for(words: str, pixels: int) -> FreeTypeFont:
    """Pillow's font, or another one if that lacks letters of these words, `pixels` high."""
    found = _opened(font_file(words, PILLOW_FONT), pixels)
    assert found is not None  # it was opened before, at another size
    return found


@functools.lru_cache(1024)
def font_file(words: str, usual: str) -> str:
    """The usual font's file, or that of the first font that has all letters, or that of the one which has most."""
    fewest, best = len(words) + 1, usual
    for name in (usual, CHINESE_FONT, *SYSTEM_FONTS):
        font = _opened(name, PROBE_PIXELS)
        if font is None:
            continue
        lacking = sum(not _has(name, letter) for letter in words)
        if lacking < fewest:
            fewest, best = lacking, name if name == PILLOW_FONT else str(font.path)
        if lacking == 0:
            break
    return best


@functools.lru_cache(256)
def _opened(name: str, pixels: int) -> FreeTypeFont | None:
    if name == PILLOW_FONT:
        found = ImageFont.load_default(pixels)
        assert isinstance(found, FreeTypeFont)  # Pillow's bitmap font comes only without a size
        return found
    try:
        return ImageFont.truetype(name, pixels)
    except OSError:  # not on this machine
        return None


@functools.lru_cache(4096)
def _has(name: str, letter: str) -> bool:
    """Whether a font has a letter: if not, it draws what it draws for U+FFFF, which is no letter in any font."""
    return letter.isspace() or _drawn(name, letter) != _drawn(name, "\uffff")


def _drawn(name: str, letter: str) -> tuple[float, bytes]:
    font = _opened(name, PROBE_PIXELS)
    assert font is not None
    return font.getlength(letter), bytes(font.getmask(letter))
