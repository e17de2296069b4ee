"""snakes bench speedrun: a training that reaches its target, one that does not, and a user's mistakes."""

import json
import re
import subprocess
from types import SimpleNamespace

import pytest
from helpers.command import assert_one_line
from helpers.forking import Forked, snakes
from helpers.training import SMOKE, alone, compile_training, here

from marl.bench import command, speedrun
from marl.bench.speedrun import Target

TRAINING = [
    "--config", SMOKE, "--device", "cpu", "--max_episodes", "400", "--log_interval", "100", "--eval_interval", "25",
    "--eval_matches", "4",
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compile_training(tmp_path_factory.mktemp("compiled"))


@pytest.mark.usefixtures("compiled")
def test_an_easy_target_is_reached(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = alone("bench", "speedrun", "--target", "level0:0.5", "--seeds", "3", "--json", *TRAINING)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    (run,) = report["runs"]
    assert (report["target"], run["seed"]) == ("level0:0.5", 3)
    assert run["seconds"] == report["median_seconds"] > 0
    assert 0.5 <= run["win_rate"] <= 1
    assert report["command"].endswith("--eval-matches 4") or report["command"].endswith("--eval_matches 4")
    told = re.findall(r"^snakes: seed 3, episode [\d,]+: [\d.]+% after [\d.]+ s$", result.stderr, re.MULTILINE)
    assert told
    assert list(tmp_path.glob("snakes-speedrun-*")) == []  # nothing is left of the run


class ForkedTraining(Forked):
    """In place of speedrun's subprocess.Popen: torch is loaded already."""

    def __init__(self, command, *, env, **_) -> None:
        assert command[1:4] == ["-m", "marl", "train"]
        super().__init__(snakes, *command[3:], environment=env)


def test_a_target_that_is_not_reached_is_told_with_exit_code_1(monkeypatch) -> None:
    stand_in = SimpleNamespace(Popen=ForkedTraining, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(speedrun, "subprocess", stand_in)
    words = ["--max_episodes", "16", "--eval_interval", "16", "--eval_matches", "2"]
    result = here("bench", "speedrun", "--target", "territory:1", *TRAINING, *words)
    assert result.returncode == 1, result.stderr
    line = result.stdout.splitlines()[-1]
    assert line.startswith("| territory:1 | - | 1: not reached | ")


def test_the_line_of_the_table() -> None:
    runs = [{"seed": seed, "seconds": seconds} for seed, seconds in ((1, 8.04), (2, 9.26), (3, 12.0))]
    report = {"target": str(Target("territory", 0.9)), "command": "snakes train", "runs": runs, "median_seconds": 9.26}
    head, rule, line = speedrun.table(report, "1 x H200").splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    assert line == "| territory:0.9 | 9.3 | 1: 8.0, 2: 9.3, 3: 12.0 | 1 x H200 | `snakes train` |"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["--target", "territory:0.9"]),
        (["--target", "territory"], ["--target", "'territory'"]),
        (["--target", "level0:1.5"], ["--target", "'level0:1.5'"]),
        (["--target", "level0:0.5", "--seeds", "x"], ["--seeds", "'x'"]),
        (["--target", "level0:0.5", "--runs_dir", "x"], ["--runs_dir does not go with bench speedrun"]),
        (["--target", "level0:0.5", "--seed", "7"], ["--seed does not go with bench speedrun", "--seeds"]),
    ],
)
def test_mistakes_are_one_line(words, parts) -> None:
    assert_one_line(here("bench", "speedrun", *words), *parts)


def test_a_mistake_in_the_flags_of_training_is_told_by_it() -> None:
    result = alone("bench", "speedrun", "--target", "level0:0.5", "--gama", "1")
    assert (result.returncode, result.stdout) == (2, "")
    assert "did you mean --gamma?" in result.stderr
    assert_one_line(here("bench", "arena", "--target", "level0:0.5"), "--target", "bench speedrun")


def test_words_that_go_on_to_the_training() -> None:
    words = ["speedrun", "--target", "level0:0.5", "--algo", "ppo", "--distributed", "--json"]
    assert command.set_aside(words) == (
        ["speedrun", "--target", "level0:0.5", "--json"],
        ["--algo", "ppo", "--distributed"],
    )
