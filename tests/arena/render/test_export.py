"""PNG, GIF, MP4 and HTML files: their pictures are those of frame.py, and their sizes are within the limits."""

import io
import json
import re
import sys

import numpy as np
import pytest
from helpers.viewed import log_of, long_match, wild_match
from PIL import Image

from arena.errors import ArenaError
from arena.extras import install_hint
from arena.render import export
from arena.render.frame import STRIP_COLOUR, TEAM_COLOURS, frame
from arena.render.page import timeline_data

SHORT = wild_match(12)


def pictures(gif: bytes) -> list[np.ndarray]:
    image = Image.open(io.BytesIO(gif))
    found = []
    for number in range(image.n_frames):
        image.seek(number)
        found.append(np.asarray(image.convert("RGB")))
    return found


def far(shown: np.ndarray, drawn: np.ndarray) -> float:
    """Mean difference between the upper part of a picture and the picture of frame.py."""
    return np.abs(shown[: len(drawn)].astype(int) - drawn).mean()


def test_png_of_a_turn_is_what_the_frame_renderer_draws(tmp_path):
    export.png(tmp_path / "turn.png", SHORT, turn=7)
    shown, drawn = np.asarray(Image.open(tmp_path / "turn.png")), frame(SHORT.states()[7], 48)
    assert shown.shape[1] == drawn.shape[1]
    assert np.array_equal(shown[: len(drawn)], drawn)


@pytest.mark.parametrize(("turns", "across", "down"), [(30, 3, 4), (3, 3, 2), (0, 1, 1)])
def test_png_without_a_turn_is_a_sheet_from_the_start_to_the_end(turns, across, down, tmp_path):
    match = wild_match(turns)
    export.png(tmp_path / "sheet.png", match)
    sheet, states = np.asarray(Image.open(tmp_path / "sheet.png")), match.states()
    first, last = frame(states[0], 16), frame(states[-1], 16)
    height, width, _ = first.shape
    assert np.array_equal(sheet[8 : 8 + height, 8 : 8 + width], first)
    row, column = divmod(min(12, len(states)) - 1, across)
    top, left = 8 + row * (height + 8), 8 + column * (width + 8)
    assert np.array_equal(sheet[top : top + height, left : left + width], last)
    assert row == down - 1
    assert sheet.shape[1] == 8 + across * (width + 8)


def test_gif_shows_every_turn_in_its_time():
    data = export.gif_bytes(SHORT, fps=4)
    image = Image.open(io.BytesIO(data))
    shown, states = pictures(data), SHORT.states()
    assert len(shown) == len(states) == 13
    for turn, state in enumerate(states):
        drawn = frame(state, export.GIF_CELLS[0])
        assert far(shown[turn], drawn) < 2, f"turn {turn}"
        assert far(shown[turn - 1], drawn) > far(shown[turn], drawn), f"turn {turn}"
    durations = []
    for number in range(image.n_frames):
        image.seek(number)
        durations.append(image.info["duration"])
    assert durations == [250] * 12 + [2000]
    assert image.info["loop"] == 0  # for ever


def test_a_gif_that_would_be_too_large_gets_smaller_cells(monkeypatch):
    sizes = [len(export.gif_bytes(SHORT, cells=(cell,))) for cell in export.GIF_CELLS]
    assert sizes == sorted(sizes, reverse=True)
    monkeypatch.setattr(export, "GIF_BYTES_MAX", sizes[1])
    assert len(export.gif_bytes(SHORT)) == sizes[1]


def test_mp4_shows_every_turn(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra `video` is not installed")
    export.mp4(tmp_path / "match.mp4", SHORT, fps=10)
    reader = ffmpeg.read_frames(str(tmp_path / "match.mp4"))
    about = next(reader)
    assert (about["codec"], about["fps"]) == ("h264", 10)
    width, height = about["size"]
    shown = [np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader]
    assert len(shown) == 13
    for turn, state in enumerate(SHORT.states()):
        assert far(shown[turn], frame(state, 32)) < 4, f"turn {turn}"
    assert list(tmp_path.iterdir()) == [tmp_path / "match.mp4"]


def test_mp4_without_its_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ArenaError, match=re.escape(install_hint("video"))):
        export.mp4(tmp_path / "match.mp4", SHORT)


@pytest.mark.parametrize("fps", [0, 0.2, 51, float("nan")])
@pytest.mark.parametrize("make", [export.gif, export.mp4])
def test_a_speed_that_no_viewer_plays_is_refused(make, fps, tmp_path):
    with pytest.raises(ArenaError, match=r"allowed: 0\.25 to 50"):
        make(tmp_path / "x", SHORT, fps)
    assert list(tmp_path.iterdir()) == []


def test_names_stand_below_in_the_teams_colours_whatever_they_are():
    def caption(red, blue):
        return export._caption(wild_match(0, red=red, blue=blue), 400, 15)

    both = caption("level4", "a team with a name far longer than the picture is wide " * 3)
    left, right = both[:, :200], both[:, 200:]
    assert (left == TEAM_COLOURS[0]).all(-1).any()
    assert (right == TEAM_COLOURS[1]).all(-1).any()
    assert (both[:, 190:210] == STRIP_COLOUR).all()  # they never meet
    assert not np.array_equal(both, caption("level3", "x"))
    for odd in ("", "\n\x1b[2J\x00", "\ud800", "<script>", "名前"):
        assert caption(odd, odd).shape == both.shape, repr(odd)


@pytest.mark.parametrize(
    "make", [export.png, export.gif, export.mp4, lambda path, match: export.html(path, [match])],
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
        export.png(tmp_path / "x.png", SHORT, turn)
    with pytest.raises(ArenaError, match=f"turn is {turn}; this match has turns 0 to 12"):
        export.html(tmp_path / "x.html", [SHORT], turn)


def page_data(path) -> dict:
    scripts = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    assert len(scripts) == 1
    return json.loads(scripts[0])


def test_html_is_small_and_holds_the_matches_as_data(tmp_path):
    export.html(tmp_path / "page.html", [long_match()])
    assert (tmp_path / "page.html").stat().st_size < 100_000  # 300,000 are allowed
    odd = wild_match(3, red="</script><script>alert(1)</script>", blue="<!-- /*part board*/")
    export.html(tmp_path / "odd.html", [odd, SHORT])
    text = (tmp_path / "odd.html").read_text()
    assert "alert(1)</script>" not in text
    assert text.count("makeBoard(look) {") == 1
    data = page_data(tmp_path / "odd.html")
    assert [(match["red"], match["blue"]) for match in data["matches"]] == [(odd.red, odd.blue), ("red", "blue")]
    assert text.count("<script") == 3


def test_html_asks_nobody_for_anything(tmp_path):
    export.html(tmp_path / "page.html", [SHORT])
    text = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in text
    assert re.findall(r"https?://\S+", text) == []
    assert re.findall(r"(?:src|href)=[\"'](?!data:,)", text) == []


def test_a_log_of_the_competition_gives_the_same_film(tmp_path):
    match = long_match()
    ours, log = timeline_data(match), timeline_data(log_of(match, tmp_path))
    assert sum(len(turn.get("died", ())) for turn in ours["turns"]) > 3
    assert ours["start"] == log["start"]
    for turn, (one, other) in enumerate(zip(ours["turns"], log["turns"], strict=True), start=1):
        # Whether a snake ate before it died is not in a log.
        assert one | {"ate": None} == other | {"ate": None}, f"turn {turn}"
