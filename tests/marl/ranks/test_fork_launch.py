"""CPU ranks that are forked from their launcher: a mistake is told once, a signal saves, no rank outlives it."""

import os
import signal
from pathlib import Path

import pytest
from helpers.processes import wait_until
from helpers.training import LIMIT, RANKS, finish, forked, needs_proc, ranks_of, the_run

from marl.ranks import exits
from marl.ranks.fork_launch import MessagePipe, _Launcher

pytestmark = needs_proc


def test_a_mistake_is_told_once(tmp_path) -> None:
    words = [*RANKS, "--runs_dir", tmp_path, "--eval_opponents", "nobody", "--distributed"]
    with forked(words, NPROC="2") as process:
        done = finish(process)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_signal_saves_and_no_rank_outlives_its_launcher(tmp_path) -> None:
    words = [*RANKS, "--max_episodes", "1000000", "--runs_dir", tmp_path, "--distributed"]
    with forked(words, NPROC="2") as process:
        wait_until(lambda: list(tmp_path.glob("*/*/checkpoints/last")), LIMIT, "a checkpoint")
        process.terminate()
        done = finish(process)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "snakes: stopped by SIGTERM\n")
    assert "stopped by a signal at episode" in done.stdout
    with forked([*words, "--resume", str(the_run(tmp_path))], NPROC="2") as process:
        wait_until(lambda: len(ranks_of(process.pid)) == 2, LIMIT, "two ranks")
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 1  # it forks: no other thread would come along
        pids = ranks_of(process.pid).values()
        process.kill()
        wait_until(lambda: not any(_lives(pid) for pid in pids), LIMIT, "the end of the ranks")


@pytest.mark.parametrize("deaf", [False, True])
def test_a_rank_that_does_not_end_after_a_signal_is_killed_and_told(deaf, monkeypatch, capsys) -> None:
    launcher = _Launcher(1, patience=0.2 if deaf else LIMIT)

    def start() -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
            os.write(writing, b"ready")
            while True:
                signal.pause()
        launcher._pids[0] = pid
        assert os.read(reading, 5) == b"ready"
        for file in (reading, writing):
            os.close(file)

    monkeypatch.setattr(launcher, "_start", start)
    monkeypatch.setattr(launcher, "_wait", lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert launcher.run() == 128 + signal.SIGTERM
    assert launcher._codes[0] == -(signal.SIGKILL if deaf else signal.SIGTERM)
    killed = "snakes: 1 rank had not saved 0.2 s after the signal (--timeout) and had to be killed; "
    assert capsys.readouterr().err.startswith(killed if deaf else "snakes: stopped by SIGTERM\n")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def pipe(monkeypatch):
    """A pipe that this process, as a rank, writes to; it is the launcher, too."""
    monkeypatch.setattr(exits, "_pipe", [])
    pipe = MessagePipe()
    exits.leave_messages_to(pipe._writing)
    yield pipe
    for file in (pipe._reading, pipe._writing):
        os.close(file)


def test_equal_messages_are_printed_once_and_others_too(pipe, capsys) -> None:
    for message in ("rank 1 is lost", "rank 1 is lost", "the store is gone"):
        exits.notify(message)
    assert capsys.readouterr().err == ""
    pipe.print_messages()
    assert capsys.readouterr().err == "snakes: rank 1 is lost\nsnakes: the store is gone\n"
    exits.notify("rank 1 is lost")
    pipe.print_messages()
    assert capsys.readouterr().err == ""


def test_without_a_launcher_a_rank_prints_its_message_itself(monkeypatch, capfd) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(exits, "_pipe", [writing])
    exits.notify("rank 1 is lost")
    os.close(writing)
    assert capfd.readouterr().err == "snakes: rank 1 is lost\n"
