"""A seed means one result, and a training leaves its process as it was: threads, random states, signals and more."""

import json
import os
import random
import signal

import numba
import numpy as np
import pytest
import torch
from helpers.command import in_fresh_process
from helpers.training import SMOKE, weights_digest

import marl
from marl.errors import UserError

TINY_TRAINING = {"max_episodes": 16, "eval_matches": 2, "device": "cpu", "precision": "fp32", "eval_gif": False}
ALGOS = ("ddpg", "ppo")
# Trains the same twice, with the other learner's training between, and prints the hashes of the weights.
TWICE = f"""
import sys, torch
from helpers.training import weights_digest
import marl
torch.set_num_threads(2)
for i, algo in enumerate({ALGOS} * 2):
    run = marl.train("smoke", algo=algo, seed=3, runs_dir=sys.argv[1], run_name=str(i), **{TINY_TRAINING})
    print("weights", weights_digest(run.path))
"""


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


def test_a_seed_means_one_result(tmp_path) -> None:
    """In one process after another training, and in this process; with two threads, if there are two cores."""
    lines = in_fresh_process(TWICE, str(tmp_path / "twice")).splitlines()
    weights = [line.removeprefix("weights ") for line in lines if line.startswith("weights ")]
    assert weights[:2] == weights[2:]
    torch.set_num_threads(2)
    for algo, expected in zip(ALGOS, weights[:2], strict=True):
        run = marl.train("smoke", algo=algo, seed=3, runs_dir=tmp_path / "here", run_name=algo, **TINY_TRAINING)
        assert weights_digest(run.path) == expected, algo


# Runs command lines and prints the CPU time and the time that a function took in each. stdin: the threads that the
# environment gives ("" for none), and (module, function, command line) of each.
MEASURED = """
import importlib, json, os, sys, time
threads, commands = json.load(sys.stdin)
if threads:
    os.environ["OMP_NUM_THREADS"] = threads
from marl.cli.main import main
for module, name, words in commands:
    owner = importlib.import_module(module)
    *path, name = name.split(".")
    for each in path:
        owner = getattr(owner, each)
    called = getattr(owner, name)
    def measured(*arguments, **options):
        clock, cpu = time.monotonic(), time.process_time()
        result = called(*arguments, **options)
        print("BUSY", time.process_time() - cpu, time.monotonic() - clock)
        return result
    setattr(owner, name, measured)
    assert main(words) == 0
    setattr(owner, name, called)
"""
# Matrices are large enough for torch to split them.
TRAIN = ["train", "--config", SMOKE, "--device", "cpu", "--matches", "256", "--max_episodes", "128"]
TRAIN += ["--body", "128,128", "--encoder", "features", "--eval_matches", "32", "--no-eval_gif", "--batch_size", "1920"]
RUN = ("marl.training.trainer", "Trainer.run")
PLAN = ["eval", "--home", "plan=4x4:champion_small", "--away", "level2", "--matches", "1", "--device", "cpu"]
# By the environment, and by the flag: compiled passes, a planner, and autograd.
ONE_THREAD = {
    "1": [(*RUN, [*TRAIN, "--algo", "ddpg", "--updates", "2"]), ("opponents.match", "play_some", PLAN)],
    "": [(*RUN, [*TRAIN, "--algo", "qmix", "--updates", "1", "--threads", "1"])],
}


@pytest.mark.parametrize("threads", ONE_THREAD)
def test_one_thread_means_one(threads, tmp_path) -> None:
    """CPU time is that of one thread, with some of the console's and the writer's; two halves would use 1.9. A busy
    machine makes the bound wider, never narrower.
    """
    commands = [
        (module, name, [*words, "--runs_dir", str(tmp_path)] if words[0] == "train" else words)
        for module, name, words in ONE_THREAD[threads]
    ]
    out = in_fresh_process(MEASURED, given=json.dumps((threads, commands)))
    busy = [map(float, line.split()[1:]) for line in out.splitlines() if line.startswith("BUSY")]
    assert len(busy) == len(commands)
    for cpu, clock in busy:
        assert cpu <= 1.4 * clock, f"{cpu / clock:.2f} threads were busy"
    assert "1 thread (" in out, "the banner says how many"
