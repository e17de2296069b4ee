"""export --jidi checks what it writes, and writes nothing that does not fit."""

from dataclasses import replace

import pytest
from helpers.command import assert_one_line
from helpers.exporting import saved_run
from helpers.training import here

from marl.errors import UserError
from marl.export import limits


def test_a_file_that_is_too_large_is_not_written_and_one_that_fits_is_named(tmp_path) -> None:
    said = here("export", "champion", "--jidi", tmp_path / "sent", "--max_size", "1")
    assert_one_line(
        said, "submission.py is not written", "3.85 MB, more than --max_size 1", "these fit: champion_small"
    )
    said = here("export", "champion_small", "--jidi", tmp_path / "sent", "--max_size", "0.001")
    assert_one_line(said, "no shipped team fits")
    assert list(tmp_path.iterdir()) == []


def test_a_move_that_takes_too_long(tmp_path, monkeypatch) -> None:
    run = saved_run(tmp_path, "features")
    real = limits.check_source
    results = []

    def slow(path, data, policy, uncaged):  # of the run, which is smaller than the shipped teams
        if policy.description == run.name:
            results.append(replace(real(path, data, policy, uncaged), longest_ms=80.0))
            return results[-1]
        return replace(results[0], longest_ms=1.0)

    monkeypatch.setattr(limits, "check_source", slow)
    said = here("export", run, "--jidi", tmp_path / "sent", "--budget", "50")
    assert_one_line(said, "a move took 80.0 ms on this machine, more than --budget 50", "these fit: champion, ")
    assert not (tmp_path / "sent").exists()
    done = here("export", run, "--jidi", tmp_path / "sent", "--budget", "80", "--max_size", "10")
    assert done.returncode == 0, done.stderr
    assert "its 100 moves are the policy's, 80.0 ms at most" in done.stdout


def test_a_plan_that_is_longer_than_the_budget(tmp_path) -> None:
    words = ("--jidi", tmp_path / "sent", "--plan", "50", "--budget", "20")
    assert_one_line(here("export", "champion_small", *words), "--plan 50", "--budget 20")


def test_what_is_written_was_checked(tmp_path, monkeypatch) -> None:
    def wrong(path, data, policy, uncaged):
        raise UserError(f"{path}: 3 of 100 moves are not those of {policy.description}")

    monkeypatch.setattr(limits, "check_source", wrong)
    run = saved_run(tmp_path, "features")
    assert_one_line(here("export", run, "--jidi", tmp_path / "sent"), "3 of 100 moves")
    assert not (tmp_path / "sent").exists()


@pytest.mark.parametrize("words", [("--budget", "50"), ("--max_size", "1")])
def test_limits_are_for_the_submission(tmp_path, words) -> None:
    assert_one_line(here("export", "champion", "--safetensors", tmp_path / "x.safetensors", *words), "--jidi")
