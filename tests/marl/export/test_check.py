"""export --check: what it tells of a submission that is in order, and one line for all that is not."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from helpers.command import assert_one_line
from helpers.exporting import player, saved_run
from helpers.submissions import UNCAGED_FLAG
from helpers.training import here

from marl.export import check
from marl.export.dense_layers import policy_layers
from marl.export.submission_file import submission_source, weights_hash
from opponents.sandbox.process import CannotSandbox, Host

MOVES = 20  # compared
PLAN_MS = 20.0
# Always has time for one reply: whether there was time depends on the machine.
PATIENT_CLOCK = """
class Clock:
    def __init__(self, deadline):
        self.deadline = float("inf")

    def can_begin(self):
        return True

    def fitting(self, wanted):
        return 1

    def timed(self, copies, stage, *arguments):
        return stage(*arguments)

    def fits(self, copies):
        return True
"""


@pytest.fixture(autouse=True)
def few_moves(monkeypatch) -> None:
    monkeypatch.setattr(check, "MOVES", MOVES)


def source(encoder: str = "canonical", plan_ms: float | None = None) -> str:
    who = player(encoder, value=plan_ms is not None)
    return submission_source(policy_layers(who), who.encoder, f"untrained_{encoder}", plan_ms)


def checked(folder: Path, text: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command's answer on a folder with this submission."""
    sent = folder / "my team"
    sent.mkdir(exist_ok=True)
    (sent / "submission.py").write_text(text)
    return here("export", *words, "--check", sent, *UNCAGED_FLAG)


def lines(result: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert result.returncode == 0, result.stderr
    return dict(re.split(r" +", line, maxsplit=1) for line in result.stdout.splitlines())


@pytest.mark.parametrize("encoder", ["planes", "tactical_board"])
def test_what_it_tells_of_a_policy(tmp_path, monkeypatch, encoder) -> None:
    """And nothing is left behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    text = source(encoder)
    said = lines(checked(tmp_path, text))
    assert said["file"] == str(tmp_path / "my team" / "submission.py")
    own = f"the policy of its weights, as they were exported of untrained_{encoder}"
    assert said["moves"] == f"{MOVES} of {MOVES} are those of {own}"
    assert re.fullmatch(r"[\d.]+ ms a move \(median\), [\d.]+ ms at most", said["time"])
    assert said["size"] == f"{len(text) / 1000:,.0f} kB"
    assert said["needs"] == "Python 3.6 or later, by its text; numpy alone"
    assert "plans" not in said
    assert not any(temporary.iterdir())
    assert [path.name for path in (tmp_path / "my team").iterdir()] == ["submission.py"]


def test_what_it_tells_of_plans(tmp_path) -> None:
    said = lines(checked(tmp_path, source(plan_ms=PLAN_MS) + PATIENT_CLOCK))
    assert said["plans"] == f"in {MOVES} of {MOVES} moves, 1.0 replies each, 20 ms"
    assert said["moves"].startswith(f"{MOVES} of {MOVES} are those of the policy")


def test_long_plans_are_fewer(tmp_path) -> None:
    text = source(plan_ms=PLAN_MS).replace("PLAN_MS = 20", "PLAN_MS = 5000")
    said = lines(checked(tmp_path, text + "MOST_REPLIES = 1\n"))
    assert said["plans"].startswith("in ")
    assert " of 2 moves, " in said["plans"]


def test_as_json(tmp_path) -> None:
    text = source(plan_ms=PLAN_MS) + PATIENT_CLOCK
    result = checked(tmp_path, text, "--json")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    times = said.pop("ms_per_move")
    assert 0 < times["median"] <= times["max"]
    assert said == {
        "file": str(tmp_path / "my team" / "submission.py"),
        "compared_with": "the policy of its weights, as they were exported of untrained_canonical",
        "moves": MOVES,
        "plan": {"ms": 20, "moves": MOVES, "plans": MOVES, "replies": MOVES},
        "bytes": len(text),
        "oldest_python": "3.6",
        "needs": None,
    }


def test_a_named_player_is_what_it_is_compared_with(tmp_path) -> None:
    run, other = saved_run(tmp_path, "canonical"), saved_run(tmp_path, "features")
    assert lines(checked(tmp_path, source(), run))["moves"] == f"{MOVES} of {MOVES} are those of {run.name}"
    result = checked(tmp_path, source(), other)
    assert_one_line(result, "submission.py: ", f" of {MOVES} moves are not those of {other.name}; the first is move ")


def test_a_file_that_knows_nothing_of_its_weights_needs_a_player(tmp_path) -> None:
    text = source().replace("WEIGHTS_SHA256 = ", "OTHER = ")
    assert_one_line(checked(tmp_path, text), "weights cannot be read", "export PLAYER --check")
    run = saved_run(tmp_path, "canonical")
    assert lines(checked(tmp_path, text, run))["moves"] == f"{MOVES} of {MOVES} are those of {run.name}"


def test_changed_weights_are_told(tmp_path) -> None:
    text = source()
    start, weights = re.fullmatch(r'(.*LAYERS = unpacked\(.*?""")(.*)""",\n\)\n', text, re.DOTALL).groups()
    changed = weights.replace("\n", "")
    changed = (
        changed[: len(changed) // 2]
        + ("A" if changed[len(changed) // 2] != "A" else "B")
        + changed[len(changed) // 2 + 1 :]
    )
    text = f'{start}{changed}""",\n)\n'
    assert_one_line(checked(tmp_path, text), "weights are not those that were exported of untrained_canonical")
    # Whoever changes them on purpose says so, and gets the policy of these weights.
    text = re.sub(r'WEIGHTS_SHA256 = "\w+"', f'WEIGHTS_SHA256 = "{weights_hash(changed)}"', text)
    assert lines(checked(tmp_path, text))["moves"].startswith(
        f"{MOVES} of {MOVES} are those of the policy of its weights"
    )


def test_a_line_that_needs_a_newer_python_is_named(tmp_path) -> None:
    text = source()
    at = text.count("\n") + 1
    said = lines(checked(tmp_path, text + "_pairs = list(zip([], [], strict=True))\n"))
    assert said["needs"] == f"Python 3.10 or later, by its text, for line {at}: zip(..., strict=); numpy alone"


WRONG = {
    "a syntax error": ("def broken(:\n", ["line ", "it is no Python"]),
    "a NUL": ("\0", ["it is no Python"]),
    "a slow package": ("import numba\n", ["cannot be loaded", "No module named 'numba'"]),  # which hosts load before
    "a part of this project": ("import arena.rules\n", ["cannot be loaded", "No module named 'arena'"]),
    "a file beside it": ("import harness\n", ["cannot be loaded", "No module named 'harness'"]),
    "an error": ("raise RuntimeError('at once')\n", ["cannot be loaded", "RuntimeError: at once"]),
    "no controller": ("del my_controller\n", ["cannot be loaded", "my_controller"]),
    "other moves": ("def choose(match, snake):\n    return match.directions[snake]\n", ["moves are not those of"]),
    "no policy": ("logits = None\n", ["the policy fails", "TypeError"]),
    "an exception": ("def my_controller(*_):\n    raise KeyError('\\x1b[31m red')\n", ["move 1", "KeyError"]),
    "no move": ("def my_controller(*_):\n    return 7\n", ["move 1", "returned 7"]),
    "an end": ("import os\nos._exit(3)\n", ["submission.py: "]),
}  # fmt: skip


@pytest.mark.parametrize(("end", "parts"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(tmp_path, end, parts) -> None:
    result = checked(tmp_path, source() + end)
    assert_one_line(result, *parts)
    assert "\x1b" not in result.stderr


def test_planning_that_fails_is_told(tmp_path) -> None:
    result = checked(tmp_path, source(plan_ms=PLAN_MS) + "Simulation = None\n")
    assert_one_line(result, "planning fails; the policy plays alone: TypeError: 'NoneType' object is not callable")


def test_a_missing_file_is_told(tmp_path) -> None:
    assert_one_line(here("export", "--check", tmp_path), f"{tmp_path / 'submission.py'}: there is no such file")
    (own := tmp_path / "by one's hand").mkdir()
    (own / "submission.py").write_text("x = 1\n")
    words = "export did not write it; name the player that it shall play like: export PLAYER --check "
    assert_one_line(here("export", "--check", own), words + shlex.quote(str(own)))
    assert_one_line(here("export", "--check", tmp_path / "none"), "none/submission.py: there is no such file")


def test_where_there_is_no_sandbox_it_is_run_only_if_that_is_asked_for(tmp_path, monkeypatch) -> None:
    def refuse(path: Path, sandboxed: bool) -> Host:
        if sandboxed:
            raise CannotSandbox("no namespaces")
        return Host(path, sandboxed)

    monkeypatch.setattr("marl.export.check.start_host", refuse)
    (tmp_path / "submission.py").write_text(source())
    assert_one_line(here("export", "--check", tmp_path), "cannot sandbox it (no namespaces)", "--uncaged")
    assert lines(here("export", "--check", tmp_path, "--uncaged"))["moves"].startswith(f"{MOVES} of {MOVES} ")


MISTAKES = {
    "with something to write": (["champion", "--check", "x", "--html", "x.html"], ["--check", "second command"]),
    "json without it": (["champion", "--html", "x.html", "--json"], ["--json", "--check"]),
    "uncaged without it": (["champion", "--html", "x.html", "--uncaged"], ["--uncaged", "--check"]),
    "a scripted player": (["level1", "--check", "x"], ["level1", "scripted"]),
    "nobody to export": (["--html", "x.html"], ["PLAYER"]),
}


@pytest.mark.parametrize(("words", "parts"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(words, parts) -> None:
    assert_one_line(here("export", *words), *parts)
