"""The command `sweep`: ranges, trials, pruning, resuming, the best configuration, and mistakes."""

import importlib.util
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from helpers.command import assert_one_line
from helpers.training import here
from PIL import Image

from marl.commands import training_jobs
from marl.commands.sweep import Sweep, parse_ranges, range_text
from marl.commands.training_jobs import DONE, FAILED, STOPPED
from marl.compute.process_identity import process_name
from marl.config.train_config import read_config
from marl.registry import LEARNERS
from marl.storage.run_folder import GROUP

needs_optuna = pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="optuna is not installed")
# Stands for `python -m marl train`: the win rate is 1 - |lr - 0.004| * 100, reached in three evaluations.
FAKE = """
import json, os, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
value = lambda name: words[len(words) - words[::-1].index(name)]
folder = Path(value("--runs-dir")) / "snakes_3v3" / value("--run-name")
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
with open("calls", "a") as calls:
    print(value("--run-name"), value("--ppo.lr"), file=calls)
todo = Path("todo").read_text() if Path("todo").exists() else ""
if todo == "fail":
    sys.exit("snakes: the disk is full")
if todo == "all but one fail":
    if not folder.name.endswith("000"):
        sys.exit("snakes: the disk is full")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.pause()
if todo == "stop":
    Path("todo").unlink()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
(folder / "config.yaml").write_text("algo: ppo\\nevaluation: {eval_opponents: [level3, level4]}\\n")
rate = max(0.0, 1 - abs(float(value("--ppo.lr")) - 0.004) * 100)
behind = rate < 0.5
with open(folder / "metrics.jsonl", "w") as metrics:
    for i in range(4):
        line = {"step": 100 * i, "eval/win_rate_level3": rate * i / 3, "eval/points": 0.5, "eval/win_rate_level4": 0.25}
        print(json.dumps(line), file=metrics, flush=True)
        if behind and i == 1 and todo == "prune":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            time.sleep(20)
"""
CALL = ("sweep", "--algo", "ppo", "--max_episodes", "300", "--device", "cpu", "--range", "lr=1e-3:1e-2:log")

TRAINING = "--algo ppo --max-episodes 300 --device cpu --eval-opponents level3,level4 --no-eval-gif"


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_jobs, "TRAIN", (sys.executable, "-S", "-c", FAKE))
    monkeypatch.setattr(training_jobs, "POLL", 0.02)
    monkeypatch.setattr(training_jobs, "WATCH_SECONDS", 0.02)
    return tmp_path


def sweep_in(folder: Path, training: str = "", against: str = "level3") -> Sweep:
    ranges = parse_ranges(["lr=1e-3:1e-2:log"], "ppo")
    return Sweep(folder, training.split(), read_config(training.split()), ranges, against)


def calls() -> list[str]:
    """The runs that were trained."""
    file = Path("calls")
    runs = [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return runs


@needs_optuna
def test_trials_the_best_configuration_and_the_picture(fake) -> None:
    done = here(*CALL, "--trials", "8", "--range", "epochs=1:2", "--side_by_side", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert calls() == [f"trial_{i:03}" for i in range(8)]
    rows = [line.split() for line in done.stdout.splitlines()]
    table = [row for row in rows if len(row) == 5 and row[0].startswith("trial_") and row[1] in ("complete", "pruned")]
    assert len(table) == 8
    complete = [float(row[2].rstrip("%")) for row in table if row[1] == "complete"]
    assert complete == sorted(complete, reverse=True)
    best = table[0]
    config = read_config(["--config", "runs/sweeps/ppo/best.yaml"])
    assert (config.ppo.lr, config.ppo.epochs) == (float(best[3]), int(best[4]))
    assert (config.run_name, config.runs_dir, config.schedule.max_episodes) == (None, "runs", 300)
    assert complete[0] == pytest.approx(100 - abs(config.ppo.lr - 0.004) * 10_000, abs=0.1)
    assert "train it: " in done.stdout
    with Image.open("runs/sweeps/ppo/importances.png") as image:
        assert image.width > 600
    assert here(*CALL, "--trials", "9", "--range", "epochs=1:2").returncode == 0
    assert calls() == ["trial_008"], "the study goes on"
    done = here(*CALL, "--trials", "9")
    assert_one_line(done, "the sweep runs/sweeps/ppo was begun with ranges", "another --name")


@needs_optuna
def test_trials_that_are_behind_are_ended_early(fake) -> None:
    Path("todo").write_text("prune")
    done = here(*CALL, "--trials", "10", "--name", "p", "--side_by_side", "1")
    assert done.returncode == 0, done.stderr
    assert ": pruned at " in done.stdout
    assert "1 evaluation," in done.stdout
    study = [json.loads(line) for line in Path("runs/sweeps/p/study.journal").read_text().splitlines()]
    assert len(study) > 10


@needs_optuna
def test_a_trial_that_was_cut_off_is_resumed_with_its_values(fake) -> None:
    Path("todo").write_text("stop")
    done = here(*CALL, "--trials", "2", "--name", "s", "--side_by_side", "1")
    assert done.returncode == 128 + signal.SIGINT
    assert "no trial has ended yet" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("stopped; resume: ")
    first = Path("calls").read_text().split()
    calls()
    done = here(*CALL, "--trials", "2", "--name", "s", "--side_by_side", "1")
    assert done.returncode == 0, done.stderr
    again = Path("calls").read_text().split()
    assert again[:2] == first, "the same run with the same value"
    assert len(calls()) == 2


@needs_optuna
def test_two_processes_work_on_one_study(fake, monkeypatch) -> None:
    """A trial of a process that still runs is left to it; several opponents: the mean of their win rates."""
    (fake / "runs/sweeps/two").mkdir(parents=True)
    other = sweep_in(fake / "runs/sweeps/two", TRAINING, "level3,level4")
    monkeypatch.setattr(other, "_process", process_name(os.getppid()))
    job = next(other.jobs(3))
    assert job.name == "trial_000"
    done = here(*CALL, "--trials", "3", "--name", "two", "--side_by_side", "1", "--against", "level3,level4")
    assert done.returncode == 0, done.stderr
    assert calls() == ["trial_001", "trial_002"]
    lines = Path("runs/sweeps/two/snakes_3v3/trial_001/metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    middle = (last["eval/win_rate_level3"] + last["eval/win_rate_level4"]) / 2
    assert f"trial_001: {middle:.1%} against level3,level4" in done.stdout
    shutil.copytree("runs/sweeps/two/snakes_3v3/trial_001", job.folder, dirs_exist_ok=True)
    job.state = DONE
    assert other.end(job).startswith(f"{middle:.1%} against level3,level4")
    assert list(other.jobs(3)) == []


@needs_optuna
def test_failures(fake) -> None:
    Path("todo").write_text("fail")
    done = here(*CALL, "--trials", "9", "--side_by_side", "1")
    assert done.returncode == 1
    assert len(calls()) == 3
    assert done.stderr.startswith("snakes: 3 trials failed one after another: trial_002: exit code 1, the disk is full")
    assert "no trial was trained to its end" in done.stdout


@needs_optuna
def test_a_sweep_that_gives_up_stops_healthy_trials_and_resumes_them_later(fake) -> None:
    Path("todo").write_text("all but one fail")
    done = here(*CALL, "--trials", "9", "--side_by_side", "2")
    assert done.returncode == 1
    assert calls() == ["trial_000", "trial_001", "trial_002", "trial_003"]
    assert done.stderr.startswith("snakes: 3 trials failed one after another: trial_003: exit code 1, the disk is full")
    assert "trial_000: failed" not in done.stdout
    Path("todo").unlink()
    done = here(*CALL, "--trials", "4", "--side_by_side", "1")
    assert done.returncode == 0, done.stderr
    assert calls() == ["trial_000"]


@needs_optuna
@pytest.mark.parametrize("state", [DONE, STOPPED])
def test_a_sweep_that_has_given_up_stays_so_whatever_its_other_trials_do(tmp_path, state) -> None:
    (tmp_path / GROUP / "trial_000").mkdir(parents=True)
    (tmp_path / GROUP / "trial_000/config.yaml").write_text("evaluation: {eval_opponents: [level3]}\n")
    line = {"step": 100, "eval/win_rate_level3": 0.5, "eval/points": 0.5}
    (tmp_path / GROUP / "trial_000/metrics.jsonl").write_text(json.dumps(line) + "\n")
    trials = sweep_in(tmp_path)
    healthy, *failing = trials.jobs(4)
    for job in failing:
        job.state = FAILED
        trials.end(job)
    assert trials.is_hopeless
    problem = trials.problem
    healthy.stop()
    healthy.state = state
    trials.end(healthy)
    assert (trials.is_hopeless, trials.problem) == (True, problem)
    states = {each.user_attrs["run"]: each.state.name for each in trials.results()}
    assert states.get("trial_000") == ("COMPLETE" if state == DONE else None), "one that was stopped stays open"


@needs_optuna
def test_a_picture_that_cannot_be_written_is_told_in_one_line(fake) -> None:
    Path("runs/sweeps/ppo/importances.png").mkdir(parents=True)
    done = here(*CALL, "--trials", "1", "--side_by_side", "1")
    assert done.returncode == 2
    assert done.stderr == "snakes: runs/sweeps/ppo/importances.png: cannot be written: Is a directory\n"


@needs_optuna
def test_ranges() -> None:
    texts = ["ppo.lr=0.0001:0.01:log", "ppo.epochs=1:4", "network.encoder=features,planes"]
    found = parse_ranges(["lr=1e-4:1e-2:log", *texts[1:]], "ppo")
    assert [range_text(*each) for each in found.items()] == texts
    kinds = [type(distribution).__name__ for distribution in found.values()]
    assert kinds == ["FloatDistribution", "IntDistribution", "CategoricalDistribution"]
    for algo in LEARNERS:
        assert len(parse_ranges([], algo)) >= 3, "built in"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--range", "lr"], ["--range lr", "NAME=LOW:HIGH"]),
        (["--range", "lr=2:1"], ["low must be below high"]),
        (["--range", "lr=0:1:log"], ["above 0 for log"]),
        (["--range", "lr=a:b"], ["'a' is no value of ppo.lr", "a finite number"]),
        (["--range", "lr=1:2:linear"], ["NAME=LOW:HIGH:log"]),
        (["--range", "learning_rate=1:2"], ["unknown flag --learning_rate"]),
        (["--range", "ddpg.tau=0.1:0.2"], ["ddpg.tau is not read by this learner"]),
        (["--range", "encoder=features"], ["two different values"]),
        (["--range", "lr=0.1:0.2", "--range", "ppo.lr=0.1:0.2"], ["ppo.lr has two ranges"]),
        (["--trials", "0"], ["--trials", "'0'"]),
        (["--run_name", "x"], ["--run_name does not go with sweep"]),
        (["--no_such", "1"], ["unknown flag --no-such"]),
        (["--name", "a/b"], ["--name 'a/b': a plain folder name is needed"]),
        (["--name", ""], ["--name ''", "folder name"]),
        (["--name", "last"], ["--name last:", "take another"]),
        (["--name", ".."], ["--name '..'", "folder name"]),
        (["--against", "foo"], ["unknown player 'foo'"]),
        (["--against", "level3,foo"], ["unknown player 'foo'"]),
        (["--against", "level4", "--eval_opponents", "level2,level3"], ["--against 'level4'", "level2,level3"]),
    ],
)
@needs_optuna
def test_mistakes(words, parts, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(here("sweep", "--algo", "ppo", "--device", "cpu", *words), *parts)
    assert list(tmp_path.iterdir()) == []


def test_without_optuna_one_line_says_how_to_install_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_one_line(here("sweep", "--algo", "ppo"), "sweep needs the package optuna; install it with: ", "[sweep]")
    assert list(tmp_path.iterdir()) == []
