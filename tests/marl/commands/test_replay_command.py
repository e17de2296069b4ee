"""The command `replay`, called like a user calls it."""

import errno
import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.command import ROOT, assert_one_line
from PIL import Image

from arena.match_dict import gains, team_scores
from arena.render.ansi import Terminal, ansi
from arena.render.timeline import recorded_timeline
from arena.replay import Replay, read, write
from marl.cli.main import main

LONG = ROOT / "tests" / "data" / "long_match.jsonl"  # of 200 turns, with long snakes
EVIL = "<b>evil\x1b[2J\nname"


@pytest.fixture
def short(tmp_path):
    """A replay file of five turns."""
    actions = np.random.default_rng(3).integers(0, 4, (5, 6)).tolist()
    write(tmp_path / "short.jsonl", Replay.from_actions(3, 0, None, actions, red="level1", blue=EVIL))
    return tmp_path / "short.jsonl"


@pytest.fixture
def replay(capsys):
    """Runs the command in this process, which has loaded all it needs."""

    def run(*words) -> subprocess.CompletedProcess[str]:
        code = main(["replay", *map(str, words)])
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return run


def test_all_files_of_a_match_are_small(tmp_path, replay):
    """By some turns with long snakes. A GIF that would be too large gets smaller pictures (test_export.py), and the
    rate of an MP4 follows from its length."""
    pytest.importorskip("imageio_ffmpeg", reason="the extra `video` is not installed")
    limits = {"gif": 2_000_000, "mp4": 1_000_000, "png": 300_000, "html": 300_000}
    whole = read(LONG)
    part = Replay.from_actions(0, 48, whole.states()[140], whole.actions()[140:144], red="a", blue="b")
    write(tmp_path / "part.jsonl", part)
    outputs = {kind: tmp_path / f"match.{kind}" for kind in limits}
    words = [word for kind, path in outputs.items() for word in (f"--{kind}", str(path))]
    result = replay(tmp_path / "part.jsonl", *words)
    assert result.returncode == 0, result.stderr
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [str(path) for path in outputs.values()]
    for kind, path in outputs.items():
        assert 10_000 < path.stat().st_size < limits[kind], kind
    with Image.open(outputs["gif"]) as image:
        assert (image.n_frames, image.format) == (9, "GIF")
        assert image.width >= 320
    with Image.open(outputs["png"]) as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 100
    assert outputs["mp4"].read_bytes()[4:8] == b"ftyp"
    assert "makeBoard" in outputs["html"].read_text()
    assert sorted(tmp_path.iterdir()) == sorted([*outputs.values(), tmp_path / "part.jsonl"])  # nothing else is left


def test_boards_as_text(short, replay):
    result = replay(short, "--ansi")
    assert result.returncode == 0, result.stderr
    names, *boards = result.stdout.rstrip("\n").split("\n\n")
    assert names == "level1 (red) against <b>evil?[2J?name (blue)"
    assert boards == [ansi(state) for state in read(short).states()]


def test_text_picture_window_page_and_demo_show_the_score_of_the_result(capsys):
    """The score is the length gained; the numbers beside it are the gains of the snakes."""
    match = read(LONG)
    last, result = match.states()[-1], match.result
    scores = (result["red_score"], result["blue_score"])
    assert team_scores(last) == recorded_timeline(match).team_scores(200) == scores
    assert (sum(gains(last)[:3]), sum(gains(last)[3:])) == scores
    header = re.fullmatch(r"turn 200/200  red (-?\d+): (.*)  blue (-?\d+): (.*)", ansi(last).split("\n")[0])
    assert (int(header[1]), int(header[3])) == scores
    for team in (2, 4):
        assert sum(int(gain) for gain in re.findall(r"\d([+-]\d+)", header[team])) == int(header[team - 1])
    assert main(["demo", "--red", "level1", "--blue", "level0", "--every", "200"]) == 0
    board, told = capsys.readouterr().out.rstrip("\n").rsplit("\n\n", 1)
    red, blue = re.match(r"(?:red wins|blue wins|draw) (-?\d+) : (-?\d+):", told).groups()
    assert re.search(rf"turn 200/200  red {red}: .*  blue {blue}: ", board)


def test_one_turn_as_text(short, replay):
    assert replay(short, "--ansi", "--turn", "3").stdout.split("\n\n")[1:] == [ansi(read(short).states()[3]), ""]


def test_a_terminal_shows_the_match_in_place(short, monkeypatch):
    for name in ("COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    told = io.BytesIO()
    reader = threading.Thread(target=lambda: told.writelines(iter(lambda: _read(ours), b"")))
    reader.start()
    with open(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert main(["replay", str(short), "--ansi", "--fps", "50"]) == 0
    reader.join(60)
    os.close(ours)
    text = told.getvalue().decode().replace("\r\n", "\n")
    screens = text.split("\x1b[H")[2:]  # the first clears the screen
    states, shown = read(short).states(), Terminal(True, False, True)
    assert len(screens) == len(states)
    for screen, state in zip(screens, states, strict=True):
        assert ansi(state, shown) in screen.replace("\x1b[K", "")
        lines = screen.split("\x1b[J")[0].split("\n")[:-1]
        assert len(lines) == 23, "names, an empty line, the header and twenty lines"
        assert all(line.endswith("\x1b[K") for line in lines), "nothing is left of a longer line before"
    assert "evil\x1b" not in text
    assert text.index("\x1b[?25l") < text.index("\x1b[?25h")  # the cursor comes back


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # on Linux: the other end is closed
        return b""


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--mp4", "m.mp4"], ["MP4 files need imageio-ffmpeg"]),
        (["--html", "closed/m.html"], ["closed/m.html", "cannot be written"]),
        (["--turn", "6", "--html", "m.html"], ["turn is 6", "0 to 5"]),
    ],
    ids=["no package", "no right to write", "no such turn"],
)
def test_nothing_is_written_if_one_of_the_outputs_cannot_be(words, parts, short, replay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    (tmp_path / "closed").mkdir()
    touch = Path.touch
    monkeypatch.setattr(Path, "touch", lambda self: refuse() if "closed" in self.parts else touch(self))
    assert_one_line(replay(short, "--gif", "m.gif", "--png", "m.png", *words), *parts)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["closed", "short.jsonl"]


def refuse() -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["FILE"]),
        (["no/such.jsonl"], ["no/such.jsonl", "No such file"]),
        ([ROOT / "README.md"], ["README.md:1", "not JSON"]),
        ([LONG, "--gif", "no/such/folder/x.gif"], ["--gif", "no/such/folder"]),
        ([LONG, LONG, "--gif", "x.gif"], ["--gif takes one match, not 2", "--html"]),
        ([LONG, "--gif", "x.gif", "--turn", "3"], ["--turn goes with --png, --html or --ansi"]),
        ([LONG, "--gif", "x.gif", "--fps", "99"], ["--fps 99", "0.25 to 50"]),
        ([LONG, "--png", "x.png", "--turn", "201"], ["turn is 201", "0 to 200"]),
    ],
)
def test_mistakes(words, parts, replay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # nothing may be written, wherever
    assert_one_line(replay(*words), *parts)
    assert list(tmp_path.iterdir()) == []


def test_without_a_display_the_other_ways_are_named(replay, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert_one_line(replay(LONG), "display", "--gif", "--html")
