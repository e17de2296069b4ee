"""A run with a time limit: its schedule of opponents follows the time, on a clock of its own."""

import pytest
from helpers.training import TINY_ANY, here

from marl.metrics.run_metrics import read_lines
from marl.training import trainer
from marl.training.progress import Stopwatch
from opponents.scheduler import LADDER, ScheduleConfig, Scheduler

MANY = 1_000_000  # episodes, which no run here comes near


class SecondPerCycle(Stopwatch):
    """A clock on which every cycle of a training takes a second."""

    passed = 0.0

    @property
    def seconds(self) -> float:
        type(self).passed += 1
        return self.passed


@pytest.mark.parametrize("strategy", ["linear", "evasive"])
def test_opponents_follow_the_time(strategy, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "Stopwatch", type("Clock", (SecondPerCycle,), {}))
    words = ["--strategy", strategy, "--max_minutes", "1", "--max_episodes", str(MANY), "--log_interval", "1"]
    words += ["--opponent_evasion_start_episode", str(MANY * 7 // 10), "--runs_dir", tmp_path]
    done = here(*TINY_ANY, "--algo", "ppo", "--update_interval", "240", "--batch_size", "240", *words)
    assert done.returncode == 0, done.stderr
    assert "opponents change by its minutes" in done.stdout
    (run,) = (tmp_path / "snakes_3v3").iterdir()
    lines = [line for line in read_lines(run) if "train/opponent_level" in line]
    schedule = Scheduler(ScheduleConfig(strategy, MANY, opponent_evasion_start_episode=MANY * 7 // 10))
    for line in lines:
        expected = schedule.rung(int(line["time/seconds"] / 60 * MANY))
        assert line["train/opponent_level"] == expected, line
    assert lines[-1]["step"] < 1000
    assert len({line["train/opponent_level"] for line in lines}) >= 3
    played = {name for line in lines for name in LADDER if any(tag.endswith(name) for tag in line)}
    assert {"level0", "level2", "level3"} <= played
