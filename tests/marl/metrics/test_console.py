"""What a user sees: plain lines in a log file, a table and a bar on a terminal."""

import inspect
import io
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.terminal import forked_in_terminal, in_terminal, screen
from helpers.training import TINY_ANY

from marl.cli import main as cli
from marl.cli import progress_bar
from marl.cli.wording import duration
from marl.metrics.console import Console, Quiet, fold, time_left

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
DETAILS = {"won against": "level0 98%, level1 50%"}
PROGRAM = f"""
import sys
from marl.metrics.console import Console
with Console(200) as console:
    console.banner([("algo", "ddpg"), ("opponents", "curriculum [red]")])
    for episode in (50, 100):
        console.progress(episode, episode / 10)
        console.line({{"episode": episode, **{VALUES!r}}}, {DETAILS!r})
    print("from elsewhere")
    console.note("saved [bold]episode_100[/bold] :snake:")
    console.progress(150, 15.0)
    console.summary("done", [("wins", 3)])
    console.commands([("look at it", "snakes replay {"x" * 100}.jsonl")])
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
    assert time_left([(40, 0.0), (50, 20.0)], 100) == 100  # a resumed run is measured from its first episode
    assert math.isnan(time_left([(0, 10.0)], 100))
    assert math.isnan(time_left([(0, 10.0), (0, 20.0)], 100))
    assert math.isnan(time_left([(0, 10.0), (5, 10.0)], 100))
    assert time_left([(100, 10.0)], 100) == 0


def plain(total: int = 400, limit: float = 0.0) -> tuple[Console, io.StringIO, list[float]]:
    stream, now = io.StringIO(), [0.0]
    return Console(total, 0, limit, stream, lambda: now[0]), stream, now


def test_a_line_says_all_and_how_long_it_takes():
    console, stream, now = plain()
    for episode, seconds in ((50, 70.0), (100, 120.0)):  # the first cycle compiled for a minute
        now[0] = seconds
        console.progress(episode, seconds)
    console.line({"episode": 100, **VALUES}, DETAILS)
    assert stream.getvalue().splitlines() == [
        "episode 100/400 | 5 min 0 s left | reward 12.35 | snakes 3 4.25 -1 | epsilon 0.31 | level 2",
        "  | loss actor -0.01235 critic 1.5e-07 | win rate - | env steps/s 123457 | ranks 2",
        "  | won against level0 98%, level1 50%",
    ]


def test_lines_are_folded_between_fields_only():
    fields = ["a" * 98, "b", "c" * 120, "d" * 40, "e" * 53, "f"]
    lines = fold(fields)
    assert lines == ["a" * 98, "  | b", f"  | {'c' * 120}", f"  | {'d' * 40} | {'e' * 53}", "  | f"]


def test_an_episode_never_passes_the_last_one():
    console, stream, _ = plain()
    console.progress(512, 3.0)
    console.line({"episode": 512})
    assert stream.getvalue() == "episode 400/400 | 0 s left\n"


def test_the_time_left_follows_the_present_speed():
    console, stream, now = plain(total=10_000)
    for episode in range(1, 201):
        now[0] += 60.0 if episode <= 100 else 1.0
        console.progress(episode, now[0])
    console.line({"episode": 200})
    assert "2 h 43 min left" in stream.getvalue()


def test_the_time_left_counts_evaluations_and_saves():
    console, stream, now = plain(total=100)
    for episode in (10, 20):
        now[0] += 3.0  # one second of training, two of an evaluation
        console.progress(episode, episode / 10)
    console.line({"episode": 20})
    assert "episode 20/100 | 24 s left" in stream.getvalue()


@pytest.mark.parametrize(("total", "left"), [(10**9, "50 s"), (200, "10 s")], ids=["by minutes", "by episodes"])
def test_the_time_left_is_that_of_the_limit_that_comes_first(total, left):
    console, stream, now = plain(total, limit=60.0)
    for episode, seconds in ((0, 0.0), (100, 10.0)):
        now[0] = seconds
        console.progress(episode, seconds)
    console.line({"episode": 100})
    assert f"| {left} left" in stream.getvalue()


def test_numbers_that_are_none():
    console, stream, _ = plain()
    console.line({"episode": 0, "loss": math.nan, "reward": math.inf, "q": 1e12, "on": True})
    assert stream.getvalue() == "episode 0/400 | ? left | loss nan | reward inf | q 1e+12 | on True\n"


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
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert b"\r" not in done.stdout
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 14
    assert lines[-1] == "False"  # rich was not loaded
    assert "saved [bold]episode_100[/bold] :snake:" in lines


def test_a_terminal_gets_a_table_and_a_bar_below_it():
    seen, errors = in_terminal(PROGRAM)
    assert errors == ""
    assert "episode 50/200 \x1b" in seen  # the bar
    assert "left" in seen
    assert seen.count("\x1b[?25h") == seen.count("\x1b[?25l") == 1  # the cursor came back
    assert "\x1b[36malgo" in seen  # colours
    lines = screen(seen)
    assert lines[0] == "algo       ddpg"
    assert lines[1] == "opponents  curriculum [red]"
    assert lines[2].split()[:5] == ["episode", "reward", "snakes", "epsilon", "level"]
    assert lines[3].split()[:5] == ["50", "12.35", "3", "4.25", "-1"]
    assert lines[4].split()[0] == "100"
    assert len(lines[2]) == len(lines[3]) == len(lines[4]) <= 100  # columns that do not fit are left out
    assert lines[5:] == [
        "from elsewhere", "saved [bold]episode_100[/bold] :snake:", "done", "  wins  3",
        f"look at it  snakes replay {'x' * 100}.jsonl", "True",
    ]  # fmt: skip  # a command is not folded, and the bar is gone


def test_a_terminal_without_colours():
    seen, _ = in_terminal(PROGRAM, NO_COLOR="1")
    assert not re.search(r"\x1b\[(\d+;)*(3[0-7]|9[0-7])(;\d+)*m", seen)
    assert "saved [bold]episode_100[/bold] :snake:" in screen(seen)


def train_evaluate_and_play_a_league(runs_dir: str) -> int:
    """As the command line does, in one process."""
    progress_bar.DELAY, progress_bar.REFRESH = 0, 0.02
    train = [*TINY_ANY, "--algo", "ppo", "--log_interval", "1", "--max_episodes", "32", "--matches", "16"]
    code = cli.main([*train, "--eval_interval", "auto", "--runs_dir", runs_dir, "--run_name", "t"])
    code = code or cli.main(["eval", "--home", "level3", "--away", "level2", "--matches", "3"])
    return code or cli.main(["league", "--players", "level1,level2", "--matches", "3"])


def test_the_terminal_of_real_commands_has_no_line_over_100_columns(tmp_path):
    seen = forked_in_terminal(train_evaluate_and_play_a_league, "runs", cwd=tmp_path)
    bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)
    # Commands are not folded, and begin with the path of Python.
    shown = [line for line in re.split(r"[\r\n]+", bare) if not re.search(r" -m \w|compiling", line)]
    assert max(map(len, shown)) <= 100, max(shown, key=len)  # bars too
    lines = screen(seen)
    headers = [i for i, line in enumerate(lines) if line.split()[:2] == ["episode", "reward"]]
    assert len(headers) > 1  # again after 20 rows
    assert lines[headers[0]].split() == [
        "episode", "reward", "opponent", "won", "policy", "value", "kl", "env", "steps/s", "save",
    ]  # fmt: skip  # PPO has no epsilon, and one rank needs no column
    rows = [line.split() for line in lines[: lines.index("at the end")] if re.match(r" +\d+ ", line)]
    episodes = [int(row[0]) for row in rows]
    assert episodes == sorted(episodes)
    assert episodes[-1] == 32
    assert next(line for line in lines if line.startswith("evaluation at")).startswith("evaluation at episode 0: ")
    assert "evaluation at the end: won level0" in bare
    assert re.search(r"evaluation against level0: \d+%", bare)  # in the bar
    assert re.search(r"level3 - level2 .*\d+ %  .* left", bare)
    assert re.search(r"level1 - level2 .*\d+ %  .* left", bare)
    names = [re.match(r"(look at it|measure it|all curves|resume it)  ", line) for line in lines]
    assert [name[1] for name in names if name] == ["look at it", "measure it", "all curves", "resume it"]


def test_a_program_that_fails_gives_the_terminal_back():
    seen, _ = in_terminal(
        "from marl.metrics.console import Console\n"
        "try:\n"
        "    with Console(10) as console:\n"
        "        console.progress(1, 1.0)\n"
        "        raise KeyboardInterrupt\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert "interrupted" in seen


def test_errors_sent_to_a_file_do_not_go_to_the_terminal():
    seen, errors = in_terminal(
        "import sys\nfrom marl.metrics.console import Console\n"
        "with Console(10) as console: console.progress(1, 1.0); print('a warning', file=sys.stderr)"
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
        quiet.line({"episode": 1}, {"won": 1})
        quiet.progress(1, 1.0)
        quiet.task("x")
        quiet.commands([("a", "b")])
        quiet.note("x")
        quiet.summary("x", [])
    assert capsys.readouterr() == ("", "")
