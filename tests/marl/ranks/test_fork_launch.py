"""CPU ranks that are forked from their launcher: a mistake is told once, a signal saves, no rank outlives it."""

import os
import signal
from pathlib import Path

from helpers.processes import wait_until
from helpers.training import LIMIT, RANKS, finish, forked, needs_proc, ranks_of, the_run

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


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
