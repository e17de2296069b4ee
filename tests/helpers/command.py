"""Runs the command line the way a user does, and code of tests: in a process of its own."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def snakes(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """Run `python -m marl` with the words and return what came out."""
    done = subprocess.run(
        [sys.executable, "-m", "marl", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, **options
    )
    done.stderr = without_compiling(done.stderr)
    return done


def on_cpu(words: Sequence[str]) -> list[str]:
    """The words of a command; a training that goes on and names no device does so on the CPU, also beside a GPU."""
    goes_on = words[:1] == ["train"] and {"--resume", "--load_model", "--load_model_run"} & {*words[1:-1]}
    return [*words, "--device", "cpu"] if goes_on and "--device" not in words else [*words]


def without_compiling(err: str) -> str:
    """What a command said, without the lines on what it compiled: in a fresh checkout that is the first test's."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("snakes: compiling "))


def in_fresh_process(code: str, *words: str, given: str = "") -> str:
    """Run Python code in a process that has loaded nothing of ours yet, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_one_line(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """The command told a user's mistake in one line that holds the parts."""
    assert result.returncode == 2, result
    assert result.stdout == "", result
    assert result.stderr.startswith("snakes: "), result
    assert result.stderr.count("\n") == 1, result
    for part in parts:
        assert part in result.stderr, result
