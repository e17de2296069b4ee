"""A seed means one result, and a training leaves its process as it was: threads, random states, signals and more."""

import os
import random
import signal

import numba
import numpy as np
import pytest
import torch
from helpers.busy import busy
from helpers.command import in_fresh_process
from helpers.short_matches import SHORT
from helpers.training import SMOKE, finish, forked_call, here, weights_digest

import marl
from marl.errors import UserError
from marl.training.trainer import Trainer

TINY_TRAINING = {
    "matches": 8,
    "max_episodes": 8,
    "eval_matches": 1,
    "eval_opponents": ["level0"],
    "device": "cpu",
    "precision": "fp32",
    "eval_gif": False,
}
ALGOS = ("ddpg", "ppo")


def state_of_process() -> dict[str, object]:
    random_of_numpy = np.random.get_state()
    return {
        "threads of torch": torch.get_num_threads(),
        "threads of Numba": numba.get_num_threads(),
        "oneDNN": torch.backends.mkldnn.enabled,
        "random state of torch": torch.get_rng_state().tolist(),
        "random state of numpy": (random_of_numpy[1].tolist(), random_of_numpy[2:]),
        "random state of Python": random.getstate(),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "environment": dict(os.environ),
        "working folder": os.getcwd(),
        "umask": os.umask(os.umask(0o022)),
        "gradients": torch.is_grad_enabled(),
        "default type": torch.get_default_dtype(),
    }


@pytest.fixture(autouse=True)
def short_matches(monkeypatch) -> None:
    monkeypatch.setattr("opponents.match.TURNS", SHORT)


@pytest.fixture
def unusual(monkeypatch, tmp_path) -> None:
    """A process whose state is not the one that a training would set."""
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("unusual")
def test_train_load_and_play_leave_the_process_as_it_was(tmp_path) -> None:
    before = state_of_process()
    run = marl.train("smoke", algo="ppo", runs_dir=tmp_path / "runs", threads=2, **TINY_TRAINING)
    assert state_of_process() == before
    player = marl.load(run)
    marl.play(player, "level0", matches=2)
    marl.play("plan=1x1:champion_small", "level1", matches=2)
    assert state_of_process() == before


@pytest.mark.usefixtures("unusual")
def test_so_does_a_training_that_fails(tmp_path, monkeypatch) -> None:
    before = state_of_process()
    monkeypatch.setattr("marl.training.trainer.Trainer.run", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        marl.train("smoke", runs_dir=tmp_path / "runs", threads=2, **TINY_TRAINING)
    assert state_of_process() == before
    with pytest.raises(UserError):
        marl.train("smoke", runs_dir="/dev/null", threads=1, **TINY_TRAINING)
    assert state_of_process() == before


def trained(runs_dir: str, name: str) -> int:
    """Train with each learner, with two threads if there are two cores, and print the hashes of the weights."""
    torch.set_num_threads(2)
    for algo in ALGOS:
        run = marl.train("smoke", algo=algo, seed=3, runs_dir=runs_dir, run_name=f"{name}_{algo}", **TINY_TRAINING)
        print("weights", weights_digest(run.path))
    return 0


def test_a_seed_means_one_result(tmp_path, capsys) -> None:
    """In this process, in it again after another training, and in another process."""
    for name in ("first", "again"):
        trained(str(tmp_path), name)
    with forked_call(trained, tmp_path, "other") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    lines = [*capsys.readouterr().out.splitlines(), *done.stdout.splitlines()]
    weights = [line for line in lines if line.startswith("weights ")]
    assert weights == weights[:2] * 3
    assert len({*weights}) == 2


# Matrices are large enough for torch to split them.
TRAIN = ["train", "--config", SMOKE, "--device", "cpu", "--matches", "256", "--max_episodes", "64"]
TRAIN += ["--body", "128,128", "--encoder", "features", "--eval_matches", "4", "--no-eval_gif", "--batch_size", "1920"]
PLAN = ["eval", "--home", "plan=8x2:champion_small", "--away", "level2", "--matches", "1", "--device", "cpu"]
# Compiled passes, and a planner, in a process whose environment gives one thread. Prints the CPU time and the time.
BY_THE_ENVIRONMENT = f"""
import os, sys
os.environ["OMP_NUM_THREADS"] = "1"
from helpers.busy import busy
from marl.cli.main import main
from marl.training.trainer import Trainer
from opponents import match
match.TURNS = {SHORT}
with busy(Trainer, "run") as of_training:
    assert main([*{TRAIN}, "--algo", "ddpg", "--updates", "2", "--runs_dir", sys.argv[1]]) == 0
with busy(match, "play_some") as of_planning:
    assert main({PLAN}) == 0
print(*of_training, *of_planning)
"""


def assert_one_thread(cpu: float, clock: float) -> None:
    """CPU time is that of one thread, with some of the console's and the writer's; two halves would use 1.9. A busy
    machine makes the bound wider, never narrower.
    """
    assert cpu <= 1.4 * clock, f"{cpu / clock:.2f} threads were busy"


def test_one_thread_of_the_environment_means_one(tmp_path) -> None:
    out = in_fresh_process(BY_THE_ENVIRONMENT, str(tmp_path))
    train_cpu, train_clock, plan_cpu, plan_clock = map(float, out.splitlines()[-1].split())
    assert_one_thread(train_cpu, train_clock)
    assert_one_thread(plan_cpu, plan_clock)
    assert "1 thread (" in out, "the banner says how many"


def test_one_thread_of_the_flag_means_one(tmp_path) -> None:
    """By autograd."""
    torch.set_num_threads(2)
    with busy(Trainer, "run") as taken:
        done = here(*TRAIN, "--algo", "qmix", "--updates", "1", "--threads", "1", "--runs_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert_one_thread(*taken)
    assert "1 thread (" in done.stdout, "the banner says how many"
