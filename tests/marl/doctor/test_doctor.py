"""snakes doctor: its report, and its failures for faults of the machine or between ranks."""

import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from helpers import HELPERS, faulty_ranks
from helpers.forking import Forked
from helpers.training import here, started

from marl.compute import machine
from marl.doctor import command, rank_check
from marl.ranks.nodes import FEWEST_CORES

FAULTY = str(HELPERS / "faulty_ranks.py")
ALL_PACKAGES = {"python", *machine.PACKAGES, *machine.TRAINING_PACKAGES}


def checks_of(report):
    return {check["name"]: check for check in report["checks"]}


def failed(report):
    """The only check that failed."""
    (check,) = (check for check in report["checks"] if not check["ok"])
    assert check["fix"]
    assert "\n" not in check["detail"] + check["fix"]
    return check


class ForkedRank(Forked):
    """A rank, with the fault in FAULT if any, in place of rank_check's subprocess.Popen: torch is loaded already."""

    def __init__(self, command, *, env, stdin, stdout, stderr):
        assert command[1:-2] == [*rank_check.PROGRAM]
        super().__init__(faulty_ranks.run_probe, env.get("FAULT", "probe"), *command[-2:], environment=env)
        self.files, self.stdin = (stdout, stderr), io.BytesIO()

    def wait(self, timeout=None):
        code = super().wait(timeout)
        for stream, file in zip((self.stdout, self.stderr), self.files, strict=True):
            file.write(stream.read().encode())
        return code


@pytest.fixture
def forked_ranks(monkeypatch):
    """The program itself runs in test_without_posix.py."""
    monkeypatch.setattr(rank_check, "subprocess", SimpleNamespace(Popen=ForkedRank, PIPE=subprocess.PIPE))


def test_json_report(tmp_path, request):
    if not torch.cuda.is_available():  # a rank with CUDA is a process of its own
        request.getfixturevalue("forked_ranks")
    result = here("doctor", "--json", "--runs_dir", tmp_path / "new" / "runs")
    report = json.loads(result.stdout)
    assert result.returncode == 0, report["checks"]
    assert report["ok"] is True
    assert report["backend"] in ("gloo", "nccl")
    assert set(report["versions"]) == ALL_PACKAGES
    assert report["cpu"]["cores"] >= 1
    assert report["ranks"]["train_ddp"] >= 1
    if report["backend"] == "gloo" and report["cpu"]["cores"] < FEWEST_CORES:
        assert report["ranks"]["train_ddp"] == 1
    assert report["ranks"]["round_trip"]["backend"] == report["backend"]
    assert report["runs_dir"]["write_mb_s"] > 0
    names = {"packages", "cache", "sandbox", "products", "self-check on cpu", "round trip", "gradients", "run folder"}
    assert names <= set(checks_of(report))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs_cuda
def test_the_gpu_ends_the_same_matches():
    assert command.checksum("cuda") == command.CHECKSUM


# --- this machine, without ranks and matches


@pytest.fixture
def report(monkeypatch, tmp_path):
    """Run doctor in this process with these flags; returns exit code and report."""
    there = {"backend": "gloo", "train_ddp": 1, "round_trip": None}
    monkeypatch.setattr(rank_check, "examine", lambda backend: (dict(there), []))
    monkeypatch.setattr(command, "checksum", lambda device: command.CHECKSUM)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = here("doctor", "--json", *words)
        assert result.stderr == ""
        return result.returncode, json.loads(result.stdout)

    return run


@pytest.mark.parametrize("problem", ["", "no C compiler\nat great length"])
def test_a_torch_that_cannot_compile_is_told_and_is_no_fault(problem, monkeypatch):
    def stand_in(function):
        def call(x):
            if problem:
                raise RuntimeError(problem)
            return function(x)

        return call

    monkeypatch.setattr(torch, "compile", stand_in)
    check = command._compiler("cpu")
    assert check.ok
    assert ("cannot compile: no C compiler" in check.detail) == bool(problem)
    assert "\n" not in check.detail


def test_a_terminal_shows_what_is_checked(report, monkeypatch):
    """On a busy machine a check takes up to a minute. A pipe gets the report alone: `report` looks at it."""
    report()
    monkeypatch.setattr("marl.doctor.check.is_terminal", lambda stream: True)
    told = re.findall(r"^checking (.*) \.\.\.$", here("doctor").stderr, re.MULTILINE)
    assert told[0] == "packages"
    assert told[-1] == "the disk of the run folder"


def test_a_wrong_game_fails(report, monkeypatch):
    monkeypatch.setattr(command, "checksum", lambda device: "another")
    code, found = report()
    assert code == 1
    assert not found["ok"]
    assert "another" in checks_of(found)["self-check on cpu"]["detail"]
    assert checks_of(found)["self-check on cpu"]["fix"]


def test_a_cache_that_cannot_be_written_fails(report, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    # Nobody can write there, not even root.
    monkeypatch.setattr("arena.jit.cache_folder", lambda: file / "folder")
    code, found = report()
    assert code == 1
    assert "NUMBA_CACHE_DIR" in failed(found)["fix"]


def test_a_missing_package_is_reported(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "arena", None)
    code, found = report()
    assert code == 1
    assert list(checks_of(found)) == ["packages"]


@pytest.mark.parametrize("words", [(), (".",)])
def test_a_missing_package_of_training_is_reported(report, monkeypatch, words):
    versions = machine.versions((*machine.PACKAGES, *machine.TRAINING_PACKAGES)) | {"tensorboard": None}
    monkeypatch.setattr(machine, "versions", lambda *_: versions)
    code, found = report(*words)
    assert code == 1
    assert failed(found)["detail"] == "missing: tensorboard"
    assert list(checks_of(found)) == ["packages"]


def test_text_says_what_failed_and_what_to_do(report, monkeypatch):
    monkeypatch.setattr(command, "checksum", lambda device: "another")
    result = here("doctor")
    assert result.returncode == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
    assert lines
    assert all("cache folder" in line for line in lines)


def test_a_run_folder_that_cannot_be_written_fails(report, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, what in (("file/runs", "Not a directory"), ("link", "No such file or directory")):
        code, found = report("--runs_dir", name)
        assert code == 1
        check = failed(found)
        assert check["name"] == "run folder"
        assert str(tmp_path / name.partition("/")[0]) in check["detail"]
        assert what in check["detail"]
        assert "--runs_dir" in check["fix"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_folder_without_the_right_to_write_fails(report, tmp_path):
    (tmp_path / "runs").mkdir(mode=0o500)
    code, found = report()
    assert code == 1
    assert "Permission denied" in failed(found)["detail"]


def test_a_full_disk_fails_and_nothing_is_written(report, monkeypatch):
    full = shutil.disk_usage("/")._replace(free=5 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)
    monkeypatch.setattr(command, "_write_speed", None)
    code, found = report()
    assert code == 1
    assert "only 5 MiB" in failed(found)["detail"]
    assert found["runs_dir"]["write_mb_s"] is None


def test_the_folder_of_the_runs_is_left_as_it_was(report, tmp_path):
    (tmp_path / "runs" / "snakes_3v3").mkdir(parents=True)
    code, found = report()
    assert code == 0
    assert found["runs_dir"]["free_gib"] > 0
    assert list((tmp_path / "runs").rglob("*")) == [tmp_path / "runs" / "snakes_3v3"]


# --- ranks


def test_a_backend_that_cannot_work_here_fails_in_one_line(monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(rank_check, "_run", None)  # no rank is started
    monkeypatch.setattr(command, "checksum", lambda device: command.CHECKSUM)
    result = here("doctor", "--backend", "nccl", "--runs_dir", tmp_path)
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("FAILED"))
    assert "ranks: --backend nccl needs a GPU" in line
    assert line.endswith(": use --backend gloo")


def test_a_number_of_ranks_that_is_none_fails(monkeypatch):
    monkeypatch.setenv("NPROC", "two")
    monkeypatch.setattr(rank_check, "_run", None)
    _, (check,) = rank_check.examine(None)
    assert not check.ok
    assert "NPROC=two" in check.detail


def test_an_unknown_backend_is_a_mistake():
    result = here("doctor", "--backend", "mpi")
    assert result.returncode == 2
    assert "mpi" in result.stderr


@pytest.fixture
def with_fault(monkeypatch, forked_ranks):
    """Report and checks of two ranks with a fault; the ranks must end by themselves."""

    def run(fault):
        monkeypatch.setenv("FAULT", fault)
        report, checks = rank_check.examine("gloo")
        return report, {check.name: check for check in checks}

    return run


def test_gradients_and_parameters_that_differ_are_named(with_fault):
    report, checks = with_fault("gradients")
    found = report["round_trip"]
    assert checks["round trip"].ok
    assert (found["ranks"], found["backend"]) == (2, "gloo")
    assert found["latency_us"] > 0
    assert found["bandwidth_mb_s"] > 0
    assert found["unwrapped"] == "the gradient of 0.weight on rank 0 of 2 is not the mean of all ranks"
    assert not checks["gradients"].ok
    assert checks["gradients"].detail == "after a step: 2.weight on rank 1 of 2 differs from the other ranks"
    assert checks["gradients"].fix


def test_a_rank_that_is_killed_is_named(with_fault):
    report, checks = with_fault("killed")
    assert report["round_trip"] is None
    assert not checks["round trip"].ok
    assert checks["round trip"].detail == "rank 1 of 2 was killed by signal 9"


def test_of_several_failures_the_cause_is_told():
    lost, cause = rank_check.End(3, "", "snakes: rank 1 of 2 stopped answering; start again"), "Traceback\nOSError: x"
    assert rank_check._problem([lost, rank_check.End(1, "", cause)]) == "rank 1 of 2: OSError: x"
    assert rank_check._problem([lost, rank_check.End(None, "", "")]) == "rank 1 of 2 stopped answering"
    assert "was killed" in rank_check._problem([rank_check.End(0, "", ""), rank_check.End(None, "", "")])
    assert rank_check._problem([rank_check.End(0, "", "")]) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_ranks_end_with_a_doctor_that_is_killed(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def read():
        assert select.select([reader], [], [], 60)[0], "nothing came"
        return os.read(reader, 1)

    words = (
        "from unittest import mock; from marl.doctor import rank_check;"
        f"mock.patch.object(rank_check, 'PROGRAM', ({FAULTY!r},)).start(); rank_check._run('gloo', 2)"
    )
    with started(["-c", words], FAULT="hang", PIPE=str(pipe)) as process:
        assert read() + read() == b"!!"  # both ranks hold the pipe open
        process.kill()
        assert read() == b""  # closed: both ranks have ended
    os.close(reader)
