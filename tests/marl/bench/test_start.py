"""snakes bench start: the clock of the probe, the stages and parts of a real start, and a user's mistakes."""

import time

import pytest
from helpers.command import assert_one_line
from helpers.training import TINY, alone

from arena.jit import cache_folder
from marl.bench import start
from marl.bench.start_probe import COMPILE, END, FIRST_LINE, STAGES, TRAINING, Clock


@pytest.fixture
def clock(monkeypatch):
    """A clock, and the time that it reads."""
    now = [100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return Clock(100.0), now


def test_a_part_counts_without_the_parts_within_it_and_for_the_stage_in_which_it_runs(clock) -> None:
    clock, now = clock

    def spend(seconds: float, *then) -> None:
        now[0] += seconds
        for function in then:
            function()

    inner = clock.measured("import", lambda: spend(2), lambda: "torch")
    compiled = clock.measured(COMPILE, lambda: spend(4), lambda: "callee")
    compiling = clock.measured(COMPILE, lambda: spend(1, compiled), lambda: "caller")
    spend(1)
    clock.measured("evaluation", lambda: spend(3, inner, compiling, lambda: clock.end_stage(FIRST_LINE), inner))()
    clock.end_stage(FIRST_LINE)  # is over: changes nothing
    clock.end_stage(TRAINING)
    spend(7)
    report = clock.report()
    assert report["ends"] == {FIRST_LINE: 11.0, TRAINING: 13.0, END: 20.0}
    parts = {stage: {(kind, item): seconds for kind, item, seconds in report["parts"][stage]} for stage in STAGES}
    first = {("rest", ""): 1.0, ("evaluation", ""): 3.0, ("import", "torch"): 2.0, (COMPILE, "caller"): 5.0}
    assert {part: seconds for part, seconds in parts[FIRST_LINE].items() if seconds} == first
    assert {part: seconds for part, seconds in parts[TRAINING].items() if seconds} == {("import", "torch"): 2.0}
    assert {part: seconds for part, seconds in parts[END].items() if seconds} == {("rest", ""): 7.0}


def test_a_real_start_has_all_stages_and_its_parts_add_up(tmp_path) -> None:
    """With the compiled code of these tests: a cold start takes as long as all of their compiling."""
    (tmp_path / "numba").symlink_to(cache_folder())
    found = start._start(TINY[1:], tmp_path, "warm")
    assert list(found["stages"]) == [FIRST_LINE, TRAINING, END]
    assert sum(stage["seconds"] for stage in found["stages"].values()) == pytest.approx(found["seconds"])
    for stage in found["stages"].values():
        assert sum(part["seconds"] for part in stage["parts"].values()) == pytest.approx(stage["seconds"], abs=0.01)
    assert found["stages"][FIRST_LINE]["parts"]["import"]["items"]["torch"] > 0
    assert "evaluation" in found["stages"][END]["parts"]
    assert (tmp_path / "runs/snakes_3v3/warm/curve.png").is_file(), "it is a real run"
    report = {"words": ["--algo", "ddpg"], "starts": {"cold": found, "warm": found}}
    lines = start.table(report).splitlines()
    assert lines[0] == "command: train --algo ddpg, ended after the first updates"
    assert any(line.startswith("  import ") for line in lines)
    assert lines[-1].startswith("CPU time ")


def test_mistakes_are_told_before_anything_is_measured() -> None:
    assert_one_line(alone("bench", "start", "--algo", "nothing"), "nothing")
    assert_one_line(alone("bench", "start", "--ranks", "2"), "--ranks")
