"""PNG, GIF, MP4 and HTML files: their pictures are those of frame.py, and their sizes are within the limits."""

import importlib.util
import io
import json
import re
import sys
from functools import cache

import numpy as np
import pytest
from helpers.viewed import log_of, long_match, wild_match
from PIL import Image

from arena.errors import ArenaError
from arena.extras import install_hint
from arena.render import export
from arena.render.frame import Film
from arena.render.page import timeline_data
from arena.render.timeline import recorded_timeline
from arena.replay import Replay

needs_ffmpeg = pytest.mark.skipif(
    importlib.util.find_spec("imageio_ffmpeg") is None, reason="the extra `video` is not installed"
)


@cache
def short() -> Replay:
    """Played when it is needed: while tests are collected, every worker would compile the rules."""
    return wild_match(12)


def pictures(gif: bytes) -> list[np.ndarray]:
    image = Image.open(io.BytesIO(gif))
    found = []
    for number in range(image.n_frames):
        image.seek(number)
        found.append(np.asarray(image.convert("RGB")))
    return found


def film(cell: int, match: Replay | None = None) -> Film:
    return Film(recorded_timeline(match or short()), cell)


def far(shown: np.ndarray, drawn: np.ndarray) -> float:
    """Mean difference between two pictures."""
    return np.abs(shown.astype(int) - drawn).mean()


def test_png_of_a_turn_is_a_picture_of_the_film(tmp_path):
    for scale, cell in ((1, 48), (0.5, 24)):
        export.png(tmp_path / "turn.png", short(), turn=7, scale=scale)
        assert np.array_equal(np.asarray(Image.open(tmp_path / "turn.png")), film(cell).picture(7))


@pytest.mark.parametrize(("turns", "across", "down"), [(30, 3, 4), (3, 3, 2), (0, 1, 1)])
def test_png_without_a_turn_is_a_sheet_from_the_start_to_the_end(turns, across, down, tmp_path):
    match = wild_match(turns)
    export.png(tmp_path / "sheet.png", match)
    sheet, drawn = np.asarray(Image.open(tmp_path / "sheet.png")), film(16, match)
    width, height = drawn.size
    assert np.array_equal(sheet[8 : 8 + height, 8 : 8 + width], drawn.picture(0))
    row, column = divmod(min(12, turns + 1) - 1, across)
    top, left = 8 + row * (height + 8), 8 + column * (width + 8)
    assert np.array_equal(sheet[top : top + height, left : left + width], drawn.picture(turns))
    assert row == down - 1
    assert sheet.shape[1] == 8 + across * (width + 8)


def test_gif_moves_between_the_turns_and_ends_with_the_result():
    data = export.gif_bytes(short(), fps=4)
    image = Image.open(io.BytesIO(data))
    shown, drawn = pictures(data), film(export.GIF_SIZES[0][0])
    assert len(shown) == 12 * 2 + 1
    for step in range(24):
        assert far(shown[step], drawn.picture(step / 2)) < 2, f"turn {step / 2}"
        assert far(shown[step + 1], drawn.picture(step / 2)) > far(shown[step], drawn.picture(step / 2))
    assert far(shown[-1], drawn.end_card()) < 3
    durations = []
    for number in range(image.n_frames):
        image.seek(number)
        durations.append(image.info["duration"])
    assert durations == [120] * 24 + [2000]
    assert image.info["loop"] == 0  # for ever
    assert len(pictures(export.gif_bytes(short(), fps=20))) == 13  # fast: no pictures between the turns


def test_a_gif_that_would_be_too_large_gets_smaller(monkeypatch):
    sizes = [len(export.gif_bytes(short(), sizes=(size,))) for size in ((20, 2), (16, 2), (16, 1))]
    assert sizes == sorted(sizes, reverse=True)
    monkeypatch.setattr(export, "GIF_BYTES_MAX", sizes[1])
    assert len(export.gif_bytes(short())) == sizes[1]
    monkeypatch.setattr(export, "GIF_BYTES_MAX", 1)  # nothing fits: the last one
    monkeypatch.setattr(export, "SAMPLES", 2)
    assert len(export.gif_bytes(short(), sizes=((20, 2), (16, 1)))) == sizes[2]


def test_a_scale_asks_for_a_size_whatever_the_file_weighs(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "GIF_BYTES_MAX", 1)
    export.gif(tmp_path / "m.gif", wild_match(2), scale=1.5)
    with Image.open(tmp_path / "m.gif") as image:
        assert image.size == film(30).size
    with pytest.raises(ArenaError, match=r"scale is 9; allowed: 0\.5 to 4"):
        export.png(tmp_path / "x.png", short(), scale=9)


@needs_ffmpeg
def test_mp4_moves_smoothly_and_ends_with_the_result(tmp_path):
    import imageio_ffmpeg as ffmpeg

    export.mp4(tmp_path / "match.mp4", short(), fps=10)
    reader = ffmpeg.read_frames(str(tmp_path / "match.mp4"))
    about = next(reader)
    assert (about["codec"], about["fps"]) == ("h264", 30)
    width, height = about["size"]
    shown = [np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader]
    assert len(shown) == 12 * 3 + 60  # two seconds for the result
    for step in range(0, 36, 5):
        assert far(shown[step], film(32).picture(step / 3)) < 4, f"turn {step / 3}"
    assert far(shown[-1], film(32).end_card()) < 4
    assert list(tmp_path.iterdir()) == [tmp_path / "match.mp4"]


def test_mp4_without_its_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ArenaError, match=re.escape(install_hint("video"))):
        export.mp4(tmp_path / "match.mp4", short())


@pytest.mark.parametrize("fps", [0, 0.2, 51, float("nan")])
@pytest.mark.parametrize("make", [export.gif, export.mp4])
def test_a_speed_that_no_viewer_plays_is_refused(make, fps, tmp_path):
    with pytest.raises(ArenaError, match=r"allowed: 0\.25 to 50"):
        make(tmp_path / "x", short(), fps)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make", [export.png, export.gif, pytest.param(export.mp4, marks=needs_ffmpeg),
             lambda path, match: export.html(path, [match])],
    ids=["png", "gif", "mp4", "html"],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(make, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArenaError, match="folder: cannot be written"):
        make(tmp_path / "folder", wild_match(1))
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


@pytest.mark.parametrize("turn", [-1, 13])
def test_a_turn_that_the_match_does_not_have_is_refused(turn, tmp_path):
    with pytest.raises(ArenaError, match=f"turn is {turn}; this match has turns 0 to 12"):
        export.png(tmp_path / "x.png", short(), turn)
    with pytest.raises(ArenaError, match=f"turn is {turn}; this match has turns 0 to 12"):
        export.html(tmp_path / "x.html", [short()], turn)


def page_data(path) -> dict:
    scripts = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    assert len(scripts) == 1
    return json.loads(scripts[0])


def test_html_is_small_and_holds_the_matches_as_data(tmp_path):
    export.html(tmp_path / "page.html", [long_match()])
    assert (tmp_path / "page.html").stat().st_size < 100_000  # 300,000 are allowed
    odd = wild_match(3, red="</script><script>alert(1)</script>", blue="<!-- /*part board*/")
    export.html(tmp_path / "odd.html", [odd, short()])
    text = (tmp_path / "odd.html").read_text()
    assert "alert(1)</script>" not in text
    assert text.count("makeBoard(look) {") == 1
    data = page_data(tmp_path / "odd.html")
    assert [(match["red"], match["blue"]) for match in data["matches"]] == [(odd.red, odd.blue), ("red", "blue")]
    assert text.count("<script") == 3


def test_html_asks_nobody_for_anything(tmp_path):
    export.html(tmp_path / "page.html", [short()])
    text = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in text
    assert re.findall(r"https?://\S+", text) == []
    assert re.findall(r"(?:src|href)=[\"'](?!data:,)", text) == []


def test_a_log_of_the_competition_gives_the_same_film(tmp_path):
    match = long_match()
    ours, log = timeline_data(match), timeline_data(log_of(match, tmp_path))
    assert sum(len(turn.get("died", ())) for turn in ours["turns"]) > 3
    assert ours["start"] == log["start"]
    assert ours["events"] == log["events"]
    assert (
        ours["boxed"]
        == log["boxed"]
        == [
            {"snake": 5, "since": 113, "turn": 116},
            {"snake": 4, "since": 166, "turn": 169},
        ]
    )
    for turn, (one, other) in enumerate(zip(ours["turns"], log["turns"], strict=True), start=1):
        # Whether a snake ate before it died is not in a log.
        assert one | {"ate": None} == other | {"ate": None}, f"turn {turn}"
