"""Ranks end with their launcher, and do not end before the one that reports for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import ROOT
from helpers.processes import wait_until

from marl.commands.train import run_argv
from marl.errors import UserError
from marl.ranks import exits

LAUNCHER = """
import os, sys, time
from marl.ranks import environment
from marl.ranks.exits import end_with_launcher
environment.announce_launcher()
if not os.fork():
    end_with_launcher()
    print(os.getpid(), flush=True)
    time.sleep(120)
time.sleep(120)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in Linux's /proc")


def run(code: str, **variables: str) -> subprocess.Popen[str]:
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=os.environ | variables, text=True, **pipes)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_rank_is_gone_as_soon_as_its_launcher_is_killed() -> None:
    with run(LAUNCHER, TORCHELASTIC_RUN_ID="x") as launcher:
        rank = int(launcher.stdout.readline())
        assert lives(rank)
        launcher.kill()
        wait_until(lambda: not lives(rank), 60, "the end of the rank")


def test_a_rank_whose_launcher_died_before_it_could_ask_ends_by_itself() -> None:
    late = "from marl.ranks.exits import end_with_launcher; end_with_launcher(); print('goes on')"
    with run(late, TORCHELASTIC_RUN_ID="x", SNAKES_LAUNCHER="1") as rank:
        out, err = rank.communicate(timeout=300)
    assert (rank.returncode, out) == (3, "")
    assert err == "snakes: the launcher of this rank is gone, so the rank ends\n"


def test_the_last_words_of_a_rank_are_printed_and_stay_in_its_log(tmp_path) -> None:
    """It ends without what Python does at an exit: what was printed must not be lost."""
    code = f"""
from marl.ranks import rank_log
from marl.ranks.exits import exit_now
print("of the run")
with rank_log.recording({str(tmp_path)!r}):
    exit_now("a rank is lost")
"""
    with run(code, PYTHONUNBUFFERED="") as rank:
        out, err = rank.communicate(timeout=300)
    assert (rank.returncode, out, err) == (3, "of the run\n", "snakes: a rank is lost\n")
    assert (tmp_path / "rank_0.log").read_text().endswith(" a rank is lost\n")


def test_a_process_that_somebody_starts_by_hand_outlives_its_shell() -> None:
    with run(LAUNCHER) as shell:
        rank = int(shell.stdout.readline())
        shell.kill()
        shell.wait()
        try:
            assert lives(rank)
        finally:
            os.kill(rank, 9)


def test_a_rank_does_not_end_before_the_first_one_has_told_a_mistake(monkeypatch) -> None:
    """If the launcher saw the other rank's end first, it ended the first one, and nothing was told."""
    monkeypatch.setattr("marl.commands.train.end_with_launcher", lambda: None)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    waited: list[float] = []
    monkeypatch.setattr(exits.time, "sleep", waited.append)
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(UserError, match="nobody"):
        run_argv(["--algo", "nobody"])
    assert waited == []
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert run_argv(["--algo", "nobody"]) == 2
    assert waited == [exits.REPORT_PATIENCE]
