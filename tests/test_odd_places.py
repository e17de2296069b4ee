"""Odd places and odd files: each is told in one line or does no harm. The tables say what was tried.

Also tried, elsewhere: full and removed disks (training/test_train.py, test_slow_disk.py, test_metrics.py), clocks that
jump (ranks/test_faults.py, storage/test_run_owner.py), drives without locks or hard links (storage/test_run_owner.py).
"""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.command import ROOT, assert_one_line
from helpers.forking import snakes
from helpers.training import TINY, files_of, finish, forked_call, here

from marl.analysis.runs import read_summary
from marl.storage import checkpoint_finder, run_folder

PLACE = "böse Läufe 蛇 'n' $HOME"  # all runs of this file are in a folder of this name
ESCAPES = "\x1b[31mred\x1b[0m\x07\r\n"
HANG = 300  # seconds


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A read that waits for ever ends in a failure."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"hangs for {HANG} s"))
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A run of 16 episodes, with checkpoints of episodes 8 and 16."""
    runs = tmp_path_factory.mktemp("odd") / PLACE
    done = here(*TINY, "--runs_dir", runs, "--run_name", "team 蛇")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return runs / run_folder.GROUP / "team 蛇"


@pytest.fixture
def run(saved, tmp_path) -> Path:
    return shutil.copytree(saved, tmp_path / PLACE / run_folder.GROUP / saved.name)


# --- special files in place of ours


def make_socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(before)


KINDS = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "socket": make_socket,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "empty file": Path.touch,
    "zeros": lambda path: path.write_bytes(bytes(1000)),
    "deep JSON": lambda path: path.write_bytes(b"[" * 100_000),
}
FILES = ("run.json", "metrics.jsonl", "checkpoints/last", "checkpoints/best", "config.yaml")
PARTS = ("manifest.json", "weights.safetensors", "state.pt", "rank0.pt")


def replace(path: Path, kind: str) -> None:
    path.unlink()
    KINDS[kind](path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_with_a_special_file_is_passed_over(kind, run, capsys) -> None:
    newest = run / "checkpoints" / "episode_16"
    kept = shutil.copytree(newest, run.parent / "kept")
    for name in PARTS:
        replace(newest / name, kind)
        assert checkpoint_finder.load_newest(run).episode == 8
        told = capsys.readouterr().err
        assert str(newest) in told
        assert told.endswith("; resuming from episode_8\n")
        assert told.count("\n") == 1
        shutil.rmtree(newest)
        shutil.copytree(kept, newest)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_special_files_is_listed_and_found(kind, run) -> None:
    for name in FILES:
        replace(run / name, kind)
    assert read_summary(run).episodes in (0, 16)
    assert checkpoint_finder.resolve(run).name == "episode_16"
    listed = here("runs", "--runs_dir", run.parent.parent)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "team 蛇" in listed.stdout


@pytest.mark.parametrize(
    ("name", "kind", "parts"),
    [
        ("config.yaml", "FIFO", ["config.yaml is no regular file"]),
        ("config.yaml", "link to nothing", ["config.yaml is no regular file"]),
        ("metrics.jsonl", "FIFO", ["cannot write metrics", "metrics.jsonl: not a regular file"]),
        ("run.json", "folder", ["run.json: Is a directory"]),
    ],
)
def test_a_resume_tells_of_a_special_file_and_loses_nothing(name, kind, parts, run) -> None:
    replace(run / name, kind)
    before = files_of(run / "checkpoints")
    assert_one_line(here("train", "--resume", run, "--max_episodes", "24"), *parts)
    assert files_of(run / "checkpoints") == before
    assert not list(run.glob("owner*"))


# --- places


def no_temporary_folder(monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    monkeypatch.setenv("NPROC", "2")


def no_home(monkeypatch) -> None:
    def fail(*_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_what_needs_a_temporary_folder_says_so_and_a_launch_needs_none(run, monkeypatch) -> None:
    from marl.ranks import launch

    no_temporary_folder(monkeypatch)
    done = here("bench", "scaling", "--ranks", "1", "--seconds", "1")
    assert_one_line(done, "no temporary folder can be written to; set TMPDIR")
    settings = {"run_id": "x", "min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2, "monitor_interval": 0.1}
    meeting = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "rdzv_configs": {"is_host": True, "timeout": 60}}
    assert launch._run({**settings, **meeting, "local_addr": "127.0.0.1"}, ["-c", "pass"]) == 0


def test_a_user_without_home_trains(run, monkeypatch) -> None:
    no_home(monkeypatch)
    done = here("train", "--resume", run, "--max_episodes", "20")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["train", "--config", "smoke", "--runs_dir", "/proc/none"], ["cannot make the run folder /proc/none"]),
        (["train", "--config", "smoke", "--runs_dir", "/dev/null"], ["cannot make the run folder /dev/null"]),
        (["train", "--config", "smoke", "--runs_dir", "x" * 300], ["File name too long"]),
        (["train", "--config", "/dev/null/x"], ["/dev/null/x"]),
        (["train", "--config", "a\0b"], ["a?b"]),
        (["train", "--resume", "a\0b"], ["a?b"]),
        (["train", "--run_name", ESCAPES], ["a plain folder name is needed"]),
        (["train", "--config", ESCAPES], ["?[31mred?[0m???"]),
        (["eval", "--home", ESCAPES, "--away", "level0"], ["\\x1b[31mred"]),
        (["eval", "--home", "\udcff.safetensors", "--away", "level0"], ["\\udcff.safetensors"]),
        (["replay", ESCAPES], ["?[31mred"]),
        (["replay", "/proc/self/mem"], ["/proc/self/mem: cannot be read"]),
        (["replay", "/dev/zero"], ["larger than"]),
        (["doctor", "a\0b"], ["a\\x00b"]),
        (["runs", "compare", "a\0b"], ["a?b"]),
        (["export", "a\0b", "--safetensors", "x.safetensors"], ["a?b"]),
        (["\udcff"], ["unknown command"]),
    ],
)
def test_an_odd_name_is_told_in_one_line(words, parts) -> None:
    assert_one_line(here(*words), *parts)


def test_names_on_the_disk_do_not_move_the_cursor(tmp_path) -> None:
    folder = tmp_path / run_folder.GROUP / ESCAPES
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"command": "x"}))
    listed = here("runs", "--runs_dir", tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\x1b" not in listed.stdout
    assert "\x07" not in listed.stdout


# --- limits and outputs, in processes of their own


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))


@pytest.mark.parametrize(
    ("what", "words", "redirect", "code", "told"),
    [
        ("output closed", ["runs"], ">&-", 0, ""),
        ("output on a full disk", ["runs"], ">/dev/full", 2, "snakes: No space left on device; free some space"),
        ("both closed", ["bogus"], ">&- 2>&-", 2, ""),
        ("errors on a full disk", ["bogus"], "2>/dev/full", 2, ""),
        (
            "300 MiB",
            ["train", "--config", "smoke"],
            "",
            2,
            "snakes: the address space is limited to 300 MiB, 3 GiB are",
        ),
    ],
)
def test_limits_and_closed_outputs(what, words, redirect, code, told, tmp_path) -> None:
    command = ["bash", "-c", f'exec "$@" {redirect}', "bash", sys.executable, "-m", "marl", *words]
    done = subprocess.run(
        [*command, "--runs_dir", str(tmp_path)] if words[0] != "bogus" else command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        preexec_fn=limit_memory if what == "300 MiB" else None,
    )
    assert done.returncode == code, (what, done)
    assert done.stderr.startswith(told), done.stderr
    assert done.stderr.count("\n") <= 1, done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_in_a_container_that_is_just_large_enough_goes_on_and_warns(run) -> None:
    """What is enough depends on torch: a run without a limit tells it."""

    def resumed(group: Path, run: Path) -> subprocess.CompletedProcess[str]:
        with forked_call(in_group, group, "train", "--resume", run, "--max_episodes", "24") as process:
            done = finish(process)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done

    with limited_group(64 << 30) as group:
        resumed(group, shutil.copytree(run, run.parent / "another"))
        peaks = [group / name for name in ("memory.peak", "memory.max_usage_in_bytes")]
        peak = next((int(file.read_text()) for file in peaks if file.exists()), None)
    if peak is None:
        pytest.skip("this kernel does not tell how much memory a control group has used")
    with limited_group(peak + peak // 4) as group:
        done = resumed(group, run)
    assert "MiB of memory are free, and training may need" in done.stdout
    assert checkpoint_finder.load_newest(run).episode == 24


def in_group(group: str, *words: str) -> int:
    """The command line in a forked process of this control group."""
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
    return snakes(*words)


@contextmanager
def limited_group(limit: int) -> Iterator[Path]:
    """A control group of Linux with a limit of memory in bytes; skips the test where none can be made."""
    for mount, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup", mount, f"snakes-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / name).exists():
                (group / name).write_text(str(limit))
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("no control group with a limit of memory can be made")
