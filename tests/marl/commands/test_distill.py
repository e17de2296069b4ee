"""The command `distill`: a policy learns what its planner decides, and is written as a snapshot that plays."""

import errno
import os
import re
from pathlib import Path

import pytest
import torch

from marl.cli import main
from marl.commands import distill
from marl.storage import snapshot
from opponents.players import champion

TINY = (
    "--matches",
    "8",
    "--batch_size",
    "48",
    "--device",
    "cpu",
    "--minutes",
    "0.02",
    "--opponents",
    "level0:0.5,self:0.5",
)
OUT = ("--out", "x.safetensors")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_student_of_the_same_size_is_written_that_plays(capsys) -> None:
    assert main(["distill", "plan=1x1:champion", *OUT, *TINY]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\| agreement [\d.]+% \| policy loss [\d.]+ ", printed), printed
    student, teacher = snapshot.read(Path("x.safetensors")), snapshot.read(champion("champion"))
    assert student.actor.spec == teacher.actor.spec
    weights = student.actor.state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    assert not torch.equal(weights["first.weight"], teacher.actor.state_dict()["first.weight"])
    assert main(["eval", "--home", "x.safetensors", "--away", "level0", "--matches", "2"]) == 0


def _refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), ".x.safetensors.1.part")


def test_a_file_that_cannot_be_written_is_told_before_teaching(monkeypatch, capsys) -> None:
    monkeypatch.setattr(Path, "touch", _refuse)
    monkeypatch.setattr(distill, "_teacher", lambda name: pytest.fail("the teacher was loaded"))
    assert main(["distill", "champion", *OUT, *TINY]) == 2
    assert capsys.readouterr().err == "snakes: x.safetensors: cannot be written: Read-only file system\n"


def test_a_failure_to_write_at_the_end_names_the_file_that_was_asked_for(monkeypatch, capsys) -> None:
    monkeypatch.setattr(snapshot, "write_atomically", _refuse)
    assert main(["distill", "plan=1x1:champion", *OUT, *TINY]) == 2
    assert capsys.readouterr().err == "snakes: x.safetensors: cannot be written: Read-only file system\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["level2", *OUT], "player 'plan=2x4:level2': level2 is no trained policy"),
        (["champion", "--out", "x.pt"], "argument --out: 'x.pt': its name must end in .safetensors"),
        (["champion", *OUT, "--minutes", "0"], "argument --minutes: '0' is no number above 0"),
        (["champion", *OUT, "--opponents", "self:0.5"], "--opponents: the shares add up to 0.5; needed: 1"),
        (["champion", *OUT, "--opponents", "plan:champion:1"], "--opponents: plan:champion plans"),
        (["champion", *OUT, "--opponents", "self"], "opponents: 'self' has no share"),
        (["champion", *OUT, "--device", "toaster"], "unknown device 'toaster'"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys) -> None:
    assert main(["distill", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"snakes: {message}")
    assert error.count("\n") == 1
