"""Owners of run folders: a living one is respected, a dead one replaced, on this machine and on others."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers.command import ROOT, assert_one_line
from helpers.processes import wait_until
from helpers.training import here

from marl.errors import UserError
from marl.storage import run_owner
from marl.storage.run_owner import RunOwner, check_free

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux's /proc tells start times")

TAKE = """
import os, sys, time
from pathlib import Path
from marl.storage import run_owner
from marl.errors import UserError
run_owner.HEARTBEAT_SECONDS, run_owner.GRACE_SECONDS = float(sys.argv[2]), 0.0
os.read(0, 1)
for _ in range(int(sys.argv[3]) - 1):
    if os.fork() == 0:
        break
owner = run_owner.RunOwner()
try:
    owner.take(Path(sys.argv[1]))
    told = "owner"
except UserError as error:
    told = str(error)
os.write(1, f"{told}\\n".encode())  # at once: the processes share the pipe
os.read(0, 1)
owner.release()
"""


def start(run: Path, beat: float = 5.0, number: int = 1) -> subprocess.Popen[str]:
    """A process, or this number of them at once, that takes the folder at the first character from us. Each releases it
    at another one."""
    words = [sys.executable, "-c", TAKE, str(run), str(beat), str(number)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(words, cwd=ROOT, text=True, **pipes)


def let(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture(autouse=True)
def short_times(monkeypatch) -> None:
    monkeypatch.setattr(run_owner, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(run_owner, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(run_owner, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(run_owner, "POLL_SECONDS", 0.01)


def owners(run: Path) -> list[str]:
    return sorted(os.listdir(run))


def elsewhere(run: Path, number: int = 1, **fields) -> Path:
    """The file of an owner on another machine."""
    file = run / f"owner.{number}.json"
    about = {"process": "far boot 7 8", "pid_namespace": "", "since": "2026-01-01 00:00:00", "launchers": []}
    file.write_text(json.dumps(about | fields))
    return file


def test_a_folder_is_held_until_it_is_released(tmp_path) -> None:
    with RunOwner() as owner:
        owner.take(tmp_path)
        owner.take(tmp_path)  # nothing more to do
        assert owners(tmp_path) == ["owner.1.json"]
        pid = f"process {os.getpid()} on {os.uname().nodename}, since 20"
        for second in (check_free, RunOwner().take):
            with pytest.raises(UserError) as refused:
                second(tmp_path)
            assert f"{tmp_path} is in use by {pid}" in str(refused.value)
    assert owners(tmp_path) == []
    check_free(tmp_path)


@needs_proc
def test_the_folder_of_a_killed_owner_is_taken_over_at_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run_owner, "LEASE_SECONDS", 1000.0)
    (tmp_path / ".run.json.123.part").touch()  # the killed owner was writing
    with start(tmp_path) as first:
        let(first)
        assert first.stdout.readline() == "owner\n"
        (tmp_path / ".metrics.jsonl.7.part").touch()
        (tmp_path / "opponents").mkdir()
        (tmp_path / "opponents" / ".team.safetensors.7.part").touch()
        (tmp_path / "opponents" / "team.safetensors").touch()
        with pytest.raises(UserError, match=f"process {first.pid} on"):
            check_free(tmp_path)
        first.kill()
        first.communicate()
    with RunOwner() as owner:
        owner.take(tmp_path)
        assert owners(tmp_path) == ["opponents", "owner.2.json"]
    assert owners(tmp_path) == ["opponents"]
    assert [file.name for file in (tmp_path / "opponents").iterdir()] == ["team.safetensors"]


def test_drafts_in_a_folder_that_a_run_only_links_to_are_left_alone(tmp_path) -> None:
    """Another run may be writing them."""
    run, other = tmp_path / "run", tmp_path / "other"
    for folder in (run / "checkpoints", other):
        folder.mkdir(parents=True)
        (folder / ".team.safetensors.7.part").touch()
    (run / "linked").symlink_to(other)
    with RunOwner() as owner:
        owner.take(run)
        assert owners(run / "checkpoints") == []
        assert owners(other) == [".team.safetensors.7.part"]


@needs_proc
def test_of_many_that_take_over_at_once_one_gets_the_folder(tmp_path) -> None:
    for round_ in range(2):
        run = tmp_path / str(round_)
        run.mkdir()
        if round_:
            elsewhere(run, process=f"{' '.join(run_owner.process_name(os.getpid()).split()[:2])} 1 1",
                      pid_namespace=os.readlink("/proc/self/ns/pid"))  # fmt: skip
        processes = start(run, number=4)
        let(processes)
        told = [processes.stdout.readline() for _ in range(4)]
        assert told.count("owner\n") == 1, told
        assert sum("is in use by process" in line for line in told) == 3, told
        processes.communicate("\n" * 4)
        assert owners(run) == []


@pytest.fixture
def other_starts_at_once(tmp_path, monkeypatch) -> None:
    """Another one is there as soon as this one has looked. It stands still: it is dead when it is looked at again."""
    make, other = run_owner._create, tmp_path / "owner.4.json"

    def make_beside_another(file: Path, content: bytes) -> bool:
        if not other.exists() and file.name == "owner.1.json":
            elsewhere(tmp_path, 4)
        return make(file, content)

    monkeypatch.setattr(run_owner, "_create", make_beside_another)


@pytest.mark.usefixtures("other_starts_at_once")
def test_of_two_that_start_at_once_the_one_that_sees_the_other_gives_way(tmp_path) -> None:
    mine = run_owner._claim(tmp_path, b"mine", ())
    assert mine.name == "owner.5.json"
    assert owners(tmp_path) == ["owner.5.json"]


@needs_proc
@pytest.mark.usefixtures("other_starts_at_once")
def test_one_that_gives_way_is_not_in_its_own_way(tmp_path) -> None:
    with RunOwner() as owner:
        owner.take(tmp_path)
        assert owners(tmp_path) == ["owner.5.json"]


def test_the_file_of_another_owner_is_not_removed_at_the_end(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run_owner, "HEARTBEAT_SECONDS", 3600.0)  # it does not notice
    with RunOwner() as owner:
        owner.take(tmp_path)
        (name,) = owners(tmp_path)
        (tmp_path / name).write_text("another")
    assert (tmp_path / name).read_text() == "another"


def test_an_owner_on_another_machine_lives_while_its_file_is_touched(tmp_path, capsys) -> None:
    file, ended = elsewhere(tmp_path), threading.Event()

    def beat() -> None:
        while not ended.wait(0.05):
            os.utime(file, (1, time.monotonic()))  # its clock is wrong

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(UserError, match="in use by process 7 on far, since 2026-01-01"):
            RunOwner().take(tmp_path)
    finally:
        ended.set()
        thread.join()
    with RunOwner() as owner:
        owner.take(tmp_path)
        assert owners(tmp_path) == ["owner.2.json"]
    assert "does process 7 on far, since 2026-01-01 00:00:00 still train" in capsys.readouterr().err


@needs_proc
def test_another_container_or_boot_is_another_machine(tmp_path, monkeypatch) -> None:
    host, boot, pid, since = run_owner.process_name(os.getpid()).split(" ")
    watched = []
    monkeypatch.setattr(run_owner, "_is_touched", lambda file: watched.append(file) or False)
    for fields in (
        {"process": f"{host} {boot} 99999999 1", "pid_namespace": "pid:[1]"},
        {"process": f"{host} other-boot {pid} {since}", "pid_namespace": os.readlink("/proc/self/ns/pid")},
    ):
        elsewhere(tmp_path, **fields)
        check_free(tmp_path)
        assert not watched
        with RunOwner() as owner:
            owner.take(tmp_path)
        assert [file.name for file in watched] == ["owner.1.json"]
        watched.clear()


@needs_proc
def test_a_launcher_that_may_start_its_ranks_again_keeps_the_folder_for_them(tmp_path) -> None:
    dead = f"{' '.join(run_owner.process_name(os.getpid()).split()[:2])} 99999999 1"
    mine = run_owner.process_name(os.getpid())
    elsewhere(tmp_path, process=dead, pid_namespace=os.readlink("/proc/self/ns/pid"), launchers=[mine])
    with pytest.raises(UserError, match="is in use"):
        RunOwner().take(tmp_path)
    with RunOwner() as owner:
        owner.take(tmp_path, [mine])  # its own ranks
        assert owners(tmp_path) == ["owner.2.json"]


def test_an_owner_that_stood_still_and_was_replaced_ends(tmp_path) -> None:
    with start(tmp_path, beat=0.05) as first:
        let(first)
        assert first.stdout.readline() == "owner\n"
        first.send_signal(signal.SIGSTOP)
        (tmp_path / "owner.1.json").unlink()
        elsewhere(tmp_path, 2)
        first.send_signal(signal.SIGCONT)
        assert first.wait(60) == 3
        err = first.stderr.read()
    assert err == f"snakes: {tmp_path} was taken over by process 7 on far, since 2026-01-01 00:00:00, " \
        "after this process stood still\n"  # fmt: skip
    assert owners(tmp_path) == ["owner.2.json"]


def test_an_owner_whose_file_is_removed_makes_it_again(tmp_path) -> None:
    with RunOwner() as owner:
        owner.take(tmp_path)
        file = tmp_path / "owner.1.json"
        before = file.read_bytes()
        file.unlink()
        wait_until(file.exists, 60, "a new file")
        wait_until(lambda: owners(tmp_path) == ["owner.1.json"], 60, "no draft")
        assert file.read_bytes() == before
    assert owners(tmp_path) == []


def test_what_is_no_file_of_an_owner_is_in_nobodys_way(tmp_path) -> None:
    os.mkfifo(tmp_path / "owner.1.json")
    (tmp_path / "owner.2.json").symlink_to("nowhere")
    (tmp_path / "owner.3.json").mkdir()
    (tmp_path / "owner.4.json").write_bytes(b"\x00{")
    (tmp_path / "owner.5.json").write_bytes(b"[" * 100_000)
    with RunOwner() as owner:
        owner.take(tmp_path)
        assert owners(tmp_path) == ["owner.3.json", "owner.6.json"]


@pytest.mark.parametrize("links", [False, True], ids=["no hard links", "links, and the answer is lost"])
def test_a_drive_that_refuses_hard_links(tmp_path, monkeypatch, links) -> None:
    link = os.link

    def refuse(*files):
        if links:
            link(*files)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with RunOwner() as owner:
        owner.take(tmp_path)
        assert owners(tmp_path) == ["owner.1.json"]
        with pytest.raises(UserError, match="is in use"):
            RunOwner().take(tmp_path)


def test_one_that_comes_too_late_is_refused_though_the_owner_has_removed_its_draft(tmp_path, monkeypatch) -> None:
    link = os.link
    with RunOwner() as owner:

        def link_too_late(draft, file):
            monkeypatch.setattr(os, "link", link)
            owner.take(tmp_path)
            assert not draft.exists()
            raise FileExistsError(17, "File exists")

        monkeypatch.setattr(os, "link", link_too_late)
        with pytest.raises(UserError, match="is in use"):
            RunOwner().take(tmp_path)


def test_a_folder_that_cannot_be_written_has_no_owner(tmp_path) -> None:
    with RunOwner() as owner:
        owner.take(tmp_path / "missing")


def test_a_second_start_is_told_who_trains(tmp_path, monkeypatch) -> None:
    from helpers.training import TINY

    runs = tmp_path / "runs"
    words = [*TINY, "--runs_dir", runs, "--run_name", "team"]
    run = runs / "snakes_3v3" / "team"
    seen = []
    from marl.training.trainer import Trainer

    train = Trainer.run

    def run_twice(self):
        seen.append(owners(run))
        seen.extend(here(*words, *more) for more in ([], ["--distributed", "--num_gpus", "2"]))
        return train(self)

    monkeypatch.setattr(Trainer, "run", run_twice)
    done = here(*words, "--max_episodes", "4")
    assert done.returncode == 0, done.stderr
    names, second, ranks = seen
    assert "owner.1.json" in names
    for refused in (second, ranks):
        assert_one_line(refused, f"{run} is in use by process {os.getpid()} on ", "stop that training first")
    assert not [name for name in owners(run) if name.startswith(("owner", "."))]
