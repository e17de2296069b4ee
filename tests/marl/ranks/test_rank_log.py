"""--rank_logs: a file of each rank, by the launcher that forks; and what a failure leaves in it."""

import re

import pytest
from helpers.command import assert_one_line
from helpers.training import RANKS, finish, forked, here

from marl.errors import UserError
from marl.ranks import rank_log


def test_two_forked_ranks_have_a_file_each(tmp_path) -> None:
    logs = tmp_path / "logs of ranks"
    words = [*RANKS, "--distributed", "--runs_dir", tmp_path / "runs", "--rank_logs", logs]
    with forked(words, NPROC="2") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in logs.iterdir()) == ["rank_0.log", "rank_1.log"]
    for rank in (0, 1):
        lines = [line.split(" ", 2)[2] for line in (logs / f"rank_{rank}.log").read_text().splitlines()]
        assert re.fullmatch(rf"rank {rank} of 2 begins on \S+, process \d+", lines[0])
        assert re.match(r"ranks 0 to 1 of 2 on \S+: training ", lines[1])
        measured = [line for line in lines if line.startswith("episode ")]
        assert len(measured) == 4
        assert all(
            re.fullmatch(r"episode \d+: [\d,]+ env steps/s .* in sums over the ranks, \d+ MiB", m) for m in measured
        )
        assert any(re.fullmatch(r"a checkpoint: [\d.]+ s", line) for line in lines)
        assert lines[-1] == "ended in order"


def test_an_error_leaves_its_traceback(tmp_path) -> None:
    with pytest.raises(ZeroDivisionError), rank_log.recording(str(tmp_path)):
        raise ZeroDivisionError("of a test")
    written = (tmp_path / "rank_0.log").read_text()
    assert "ended by ZeroDivisionError\nTraceback (most recent call last):\n" in written
    assert written.endswith("ZeroDivisionError: of a test\n")
    rank_log.write("to nobody")
    assert (tmp_path / "rank_0.log").read_text() == written


def test_a_mistake_leaves_no_traceback(tmp_path) -> None:
    with pytest.raises(UserError), rank_log.recording(str(tmp_path)):
        raise UserError("of a test")
    assert (tmp_path / "rank_0.log").read_text().endswith(" ended by UserError: of a test\n")


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NPROC", "1")  # more would be forked from this process
    (tmp_path / "file").write_text("")
    assert_one_line(here("train", "--rank_logs", tmp_path / "file" / "logs"), "--rank_logs", "Not a directory")
    assert_one_line(here("train", "--rank_logs"), "--rank_logs needs a value")
