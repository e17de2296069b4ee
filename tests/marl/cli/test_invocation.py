"""The words that start the program, in messages that a user can paste."""

import os
import shlex
import sys

import pytest

from marl.cli import invocation
from marl.cli.invocation import VARIABLE, command, example, interpreter, program
from marl.cli.main import _overview


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Pretends that the program was started by these words, in a folder with a virtual environment."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "snakes"):
        (folder / name).touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))

    def started(typed: str, script: str, activated: bool = False) -> None:
        monkeypatch.setattr(sys, "orig_argv", [typed, "-m", "marl"])
        monkeypatch.setattr(sys, "argv", [script])
        monkeypatch.setenv("PATH", f"{folder if activated else '/nowhere'}{os.pathsep}/usr/bin")
        return folder

    return started


def test_python_by_its_path(start) -> None:
    start(".venv/bin/python", "marl/__main__.py")
    assert program() == ".venv/bin/python -m marl"
    assert command("train", "--resume", "a b") == ".venv/bin/python -m marl train --resume 'a b'"


def test_python_by_its_absolute_path_from_below_and_from_elsewhere(start, monkeypatch) -> None:
    folder = start(sys.executable, "marl/__main__.py")
    assert interpreter() == ".venv/bin/python"
    monkeypatch.chdir("/usr")
    assert interpreter() == shlex.quote(f"{folder}/python")


def test_python_of_an_activated_environment(start) -> None:
    start("python", "marl/__main__.py", activated=True)
    assert program() == "python -m marl"


def test_a_name_that_now_means_another_python(start) -> None:
    start("python", "marl/__main__.py")
    assert program() == ".venv/bin/python -m marl"


def test_the_script(start, tmp_path) -> None:
    script = str(tmp_path / ".venv" / "bin" / "snakes")
    start(sys.executable, script, activated=True)
    assert program() == "snakes"
    start(sys.executable, script)
    assert program() == ".venv/bin/snakes"


def test_examples_do_not_repeat_a_long_path(start, monkeypatch) -> None:
    start(".venv/bin/python", "marl/__main__.py")
    assert example("runs", "last") == ".venv/bin/python -m marl runs last"
    assert "short for" not in _overview()
    monkeypatch.chdir("/usr")
    assert len(program()) > 24
    assert example("runs", "last") == "snakes runs last"
    assert f"(snakes: short for {program()}, " in _overview()
    assert _overview().count(program()) == 2, "in the usage, and where it is shortened"


def test_ranks_say_what_their_launcher_says(start, monkeypatch) -> None:
    start("python", "marl/__main__.py", activated=True)
    monkeypatch.setenv(invocation.VARIABLE, "snakes")
    assert command("eval", "--list") == "snakes eval --list"


def test_commands_are_quoted_for_the_shells_of_windows(start, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "snakes")
    monkeypatch.setattr(invocation, "ON_WINDOWS", True)
    assert command("eval", "--home", r"C:\my runs\run1") == r'snakes eval --home "C:\my runs\run1"'
    assert command("replay", r"C:\runs\it's.jsonl") == r"snakes replay C:\runs\it's.jsonl"
    assert invocation.train_with("NPROC", 2).startswith("set NPROC=2&& ")


def test_a_program_on_another_drive_has_its_whole_path(start, monkeypatch) -> None:
    def refuse(path: str) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", refuse)
    assert invocation._near("/elsewhere/python") == "/elsewhere/python"


def test_the_script_of_windows_has_an_ending(start, monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "argv", ["/env/Scripts/snakes", "eval"])
    monkeypatch.setattr(invocation.shutil, "which", lambda name: f"/env/Scripts/{name}.EXE")
    assert program() == "snakes"
