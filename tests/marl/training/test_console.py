"""What a user sees: plain lines in a log file, a bar on a terminal."""

import inspect
import io
import math
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from marl.training.console import Console, Quiet, duration, time_left

ROOT = Path(__file__).resolve().parents[3]
VALUES = {
    "reward": 12.3456,
    "snakes": [3.0, 4.25, -1],
    "epsilon": 0.31,
    "level": 2,
    "loss": {"actor": -0.0123456, "critic": 1.5e-7},
    "win rate": None,
    "env steps/s": 123456.7,
    "ranks": 2,
}
PROGRAM = f"""
import sys
from marl.training.console import Console
with Console(200) as console:
    console.banner([("algo", "ddpg"), ("opponents", "curriculum [red]")])
    for episode in (50, 100):
        console.line({{"episode": episode, **{VALUES!r}}})
    print("from elsewhere")
    console.note("saved [bold]episode_100[/bold] :snake:")
    console.progress(150)
    console.summary("done", [("wins", 3)])
print("rich" in sys.modules)
"""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (45.4, "45 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"), (86399, "1 d 0 h"), (4 * 86400 - 72000, "3 d 4 h"), (math.nan, "?"), (math.inf, "?"),
        (-1, "?"),
    ],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_time_left():
    assert time_left([(0, 10.0), (50, 20.0)], 100) == 10
    assert time_left([(40, 0.0), (50, 20.0)], 100) == 100  # a resumed run is measured from where it went on
    assert math.isnan(time_left([(0, 10.0)], 100))
    assert math.isnan(time_left([(0, 10.0), (0, 20.0)], 100))
    assert math.isnan(time_left([(0, 10.0), (5, 10.0)], 100))
    assert time_left([(100, 10.0)], 100) == 0


def plain(total: int = 400, start: int = 0) -> tuple[Console, io.StringIO, list[float]]:
    stream, now = io.StringIO(), [0.0]
    return Console(total, start, stream, lambda: now[0]), stream, now


def test_a_line_says_all_and_how_long_it_takes():
    console, stream, now = plain()
    now[0] = 100.0
    console.line({"episode": 100, **VALUES})
    assert stream.getvalue() == (
        "episode 100/400 | reward 12.35 | snakes 3 4.25 -1 | epsilon 0.31 | level 2 | loss actor -0.01235 "
        "critic 1.5e-07 | win rate - | env steps/s 123457 | ranks 2 | 5 min 0 s left\n"
    )


def test_the_time_left_follows_the_present_speed():
    console, stream, now = plain(total=10_000)
    for episode in range(1, 101):
        now[0] += 60.0  # compiling, say
        console.progress(episode)
    for episode in range(101, 201):
        now[0] += 1.0
        console.progress(episode)
    console.line({"episode": 200})
    assert "2 h 43 min left" in stream.getvalue()


def test_numbers_that_are_none():
    console, stream, _ = plain()
    console.line({"episode": 0, "loss": math.nan, "reward": math.inf, "q": 1e12, "on": True})
    assert stream.getvalue() == "episode 0/400 | loss nan | reward inf | q 1e+12 | on True | ? left\n"


def test_banner_and_summary_line_up():
    console, stream, _ = plain()
    console.banner([("algo", "ddpg"), ("opponents", "curriculum"), ("empty", "")])
    console.summary("results", [("opponent", "wins", "matches"), ("level0", 99, 100), ("a longer name", 0.5)])
    console.summary("nothing", [])
    assert stream.getvalue().splitlines() == [
        "algo       ddpg",
        "opponents  curriculum",
        "empty",
        "results",
        "  opponent       wins  matches",
        "  level0           99      100",
        "  a longer name   0.5",
        "nothing",
    ]


def test_closing_twice_and_going_on_plainly():
    console, stream, _ = plain()
    console.close()
    console.close()
    console.note("still here")
    assert stream.getvalue() == "still here\n"


def test_a_pipe_gets_plain_lines_and_rich_stays_away():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert b"\r" not in done.stdout
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 9
    assert lines[-1] == "False"  # rich was not loaded
    assert "saved [bold]episode_100[/bold] :snake:" in lines


def in_terminal(program: str, **environment: str) -> tuple[str, str]:
    """Output on the terminal and on stderr, which is a pipe, of a program run in a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 65536):
            seen += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    return seen.decode(), errors.decode()


def test_a_terminal_gets_a_bar_below_the_lines():
    seen, errors = in_terminal(PROGRAM)
    assert errors == ""
    assert "episode 50/200 \x1b" in seen  # the bar
    assert "left" in seen
    assert seen.count("\x1b[?25h") == seen.count("\x1b[?25l") == 1  # the cursor came back
    lines = screen(seen)
    assert lines[0] == "algo       ddpg"
    assert lines[1] == "opponents  curriculum [red]"
    assert lines[2].startswith("episode 50/200 | reward 12.35 |")
    assert "| ranks 2 |" in lines[2]  # a long line is not folded
    assert lines[3].startswith("episode 100/200 |")
    assert lines[4:] == [
        "from elsewhere", "saved [bold]episode_100[/bold] :snake:", "done", "  wins  3", "True",
    ]  # fmt: skip  # and the bar is gone


def screen(seen: str) -> list[str]:
    """The lines that a terminal shows after this output, at any width."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", seen):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif up := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(up[1] or 1)
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]


def test_a_program_that_fails_gives_the_terminal_back():
    seen, _ = in_terminal(
        "from marl.training.console import Console\n"
        "try:\n"
        "    with Console(10) as console:\n"
        "        console.progress(1)\n"
        "        raise KeyboardInterrupt\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert "interrupted" in seen


def test_errors_sent_to_a_file_do_not_go_to_the_terminal():
    seen, errors = in_terminal(
        "import sys\nfrom marl.training.console import Console\n"
        "with Console(10) as console: console.progress(1); print('a warning', file=sys.stderr)"
    )
    assert errors == "a warning\n"
    assert "a warning" not in seen


def test_a_dumb_terminal_gets_plain_lines():
    seen, _ = in_terminal(PROGRAM, TERM="dumb")
    assert "\x1b" not in seen
    assert seen.rstrip().endswith("False")


def test_quiet_has_the_same_methods_and_says_nothing(capsys):
    for name, method in inspect.getmembers(Console, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(Quiet, name)) == inspect.signature(method)
    with Quiet() as quiet:
        quiet.banner([("a", "b")])
        quiet.line({"episode": 1})
        quiet.progress(1)
        quiet.note("x")
        quiet.summary("x", [])
    assert capsys.readouterr() == ("", "")
