"""train --seeds: which seeds are trained, skipped and resumed, what a failure does, and mistakes."""

import signal
import sys
from pathlib import Path

import pytest
import yaml
from helpers.command import assert_one_line
from helpers.training import TINY, here

from marl.commands import training_jobs
from marl.commands.train_argv import parse_seeds
from marl.commands.training_jobs import TrainingJob
from marl.training.resume_plan import plan_resume

# Stands for `python -m marl train`: writes a run as a training does, or fails, and notes that it was called.
FAKE = """
import json, os, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
value = lambda name: words[len(words) - words[::-1].index(name)]  # the last one counts
folder = Path("runs/snakes_3v3") / value("--run-name")
with open("calls", "a") as calls:
    print(value("--seed"), os.environ.get("OMP_NUM_THREADS", "-"), file=calls)
Path("episodes").exists() or sys.exit("snakes: the file episodes is missing")
todo = json.loads(Path("episodes").read_text()).get(value("--seed"), 100)
if todo == "fail":
    print("snakes: the disk is full", file=sys.stderr)
    sys.exit(2)
if todo == "stop":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
config = "algo: ppo\\nschedule: {max_episodes: 100}\\nevaluation: {eval_opponents: [level0]}\\n"
(folder / "config.yaml").write_text(config + f"seed: {value('--seed')}\\n")
(folder / "checkpoints" / "last").write_text(f"episode_{todo}")
line = {"step": todo, "eval/win_rate_level0": 0.75, "eval/points": 0.75}
(folder / "metrics.jsonl").write_text(json.dumps(line) + "\\n")
"""
CALL = ("train", "--algo", "ppo", "--max_episodes", "100", "--device", "cpu", "--run_name", "x")


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_jobs, "TRAIN", (sys.executable, "-S", "-c", FAKE))
    monkeypatch.setattr(training_jobs, "POLL", 0.02)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path


def calls(folder: Path) -> list[str]:
    """The seeds that were trained, sorted."""
    file = folder / "calls"
    seeds = sorted(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else []
    file.unlink(missing_ok=True)
    return seeds


def test_done_seeds_are_skipped_and_a_failure_does_not_lose_the_others(fake) -> None:
    (fake / "episodes").write_text('{"2": "fail", "3": 50}')
    done = here(*CALL, "--seeds", "1-4", "--side_by_side", "2")
    assert done.returncode == 1
    assert "2 at a time" in done.stdout
    assert calls(fake) == ["1", "2", "3", "4"]
    assert "seed 1: done in " in done.stdout
    assert "level0 75.0%" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("snakes: 1 of 4 seeds failed: seed 2: exit code 2, the disk is full (log: ")
    assert "again: " in line
    assert line.endswith("--run-name x --seeds 1-4 --side-by-side 2")
    assert (fake / "runs/snakes_3v3/x_seed2.log").read_text() == "snakes: the disk is full\n"
    (fake / "episodes").write_text("{}")
    done = here(*CALL, "--seeds", "1-4")
    assert (done.returncode, done.stderr) == (0, "")
    assert calls(fake) == ["2", "3"], "seed 3 was cut off at half of its episodes"
    assert "seed 1: done already, level0 75.0%" in done.stdout
    assert "seed 3: resumed" in done.stdout
    assert "seed 2: started" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("all 4 seeds done; compare them: ")
    assert done.stdout.rstrip().endswith(" report x")
    assert here(*CALL, "--seeds", "1-4").returncode == 0
    assert calls(fake) == []
    assert here(*CALL[:3], "--max_episodes", "200", *CALL[5:], "--seeds", "4").returncode == 0
    assert calls(fake) == ["4"], "a higher limit is more to do"


def test_the_bar_knows_the_episodes_that_a_training_has_chosen(fake) -> None:
    (fake / "episodes").write_text('{"1": 25}')
    words = ("--algo", "ppo", "--device", "cpu", "--run_name", "x")
    job = TrainingJob("seed 1", (), Path("runs/snakes_3v3/x_seed1"), plan_resume(words).config)
    assert job.fraction() == 0.0, "it has not begun"
    assert here("train", *words, "--seeds", "1").returncode == 0
    assert job.fraction() == 0.25


@pytest.mark.parametrize("command", [("train", "--seeds", "1", "--max_episodes", "20"), ("exploit", "level1")])
def test_a_folder_that_cannot_be_made_is_told_before_anything_starts(fake, command) -> None:
    (fake / "file").write_text("")
    done = here(*command, "--runs_dir", "file")
    assert_one_line(done, "cannot make the run folder file/snakes_3v3", "choose another --runs_dir")


def test_ctrl_c_saves_and_says_how_to_resume(fake) -> None:
    (fake / "episodes").write_text('{"2": "stop"}')
    before = signal.getsignal(signal.SIGINT)
    done = here(*CALL, "--seeds", "1-3", "--side_by_side", "1")
    assert done.returncode == 128 + signal.SIGINT
    assert calls(fake) == ["1", "2"]
    assert "seed 2: stopped by a signal" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("stopped: 2,3 not done; resume: ")
    assert signal.getsignal(signal.SIGINT) == before


def test_other_settings_need_another_name(fake) -> None:
    (fake / "episodes").write_text("{}")
    assert here(*CALL, "--seeds", "1").returncode == 0
    config = fake / "runs/snakes_3v3/x_seed1/config.yaml"
    config.write_text(config.read_text() + "ppo: {lr: 0.003}\n")
    assert here(*CALL, "--seeds", "1").returncode == 0
    done = here(*CALL, "--seeds", "1", "--lr", "0.1")
    assert_one_line(done, "x_seed1 is done, but with ppo.lr 0.003, not 0.1", "another --run_name")


@pytest.mark.parametrize(
    ("text", "seeds"), [("1-3", (1, 2, 3)), ("1,2,5", (1, 2, 5)), ("7", (7,)), ("1-3,2,9-10", (1, 2, 3, 9, 10))]
)
def test_seeds_are_read(text, seeds) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--seeds", "3-1"], ["--seeds 3-1", "like 1-10 or 1,2,5"]),
        (["--seeds", "one"], ["--seeds one"]),
        (["--seeds", "1-99999"], ["at most 1,000"]),
        (["--seeds"], ["--seeds needs a value"]),
        (["--seeds", "1", "--side_by_side", "0"], ["--side_by_side 0"]),
        (["--side_by_side", "2"], ["--seeds, which is missing"]),
        (["--seeds", "1,2", "--seed", "3"], ["--seed and --seeds"]),
        (["--seeds", "1,2", "--resume", "last"], ["--resume does not go with --seeds", "--run_name"]),
        (["--seeds", "1,2", "--load_model"], ["--load_model does not go with --seeds"]),
        (["--seeds", "1,2", "--nnodes", "2"], ["one machine"]),
        (["--seeds", "1,2", "--run_name", "a/b"], ["--run_name", "plain folder name"]),
        (["--seeds", "1,2", "--no_such_flag", "3"], ["unknown flag --no-such-flag"]),
    ],
)
def test_mistakes(words, parts, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(here("train", "--device", "cpu", *words), *parts)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_is_that_of_the_first_seed(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = here(*TINY, "--seeds", "5-7", "--run_name", "y", "--print_config")
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load(done.stdout)
    assert (config["seed"], config["run_name"]) == (5, "y_seed5")
