"""A seed means one result, and a training leaves its process as it was: threads, random states, signals and more."""

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
# Trains the same twice, with another training between, and prints the hashes of the weights.
TWICE = f"""
import sys, torch
from helpers.training import weights_digest
import marl
algo, runs = sys.argv[1:]
torch.set_num_threads(2)
for i, (name, seed) in enumerate(((algo, 3), ("ppo", 4), (algo, 3))):
    run = marl.train("smoke", algo=name, seed=seed, runs_dir=runs, run_name=str(i), **{TINY_TRAINING})
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


@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_a_seed_means_one_result(algo, tmp_path) -> None:
    """In one process after another training, and in this process; with two threads, if there are two cores."""
    lines = in_fresh_process(TWICE, algo, str(tmp_path / "twice")).splitlines()
    first, between, last = (line for line in lines if line.startswith("weights "))
    assert first == last != between
    torch.set_num_threads(2)
    run = marl.train("smoke", algo=algo, seed=3, runs_dir=tmp_path / "here", **TINY_TRAINING)
    assert f"weights {weights_digest(run.path)}" == last


# Runs the command line and prints the CPU time and the time that a function took. Which function, and the threads that
# the environment gives ("" for none), come first.
MEASURED = """
import importlib, os, sys, time
module, name, threads, *words = sys.argv[1:]
if threads:
    os.environ["OMP_NUM_THREADS"] = threads
from marl.cli.main import main
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
"""
# Matrices are large enough for torch to split them.
TRAIN = ["--config", SMOKE, "--device", "cpu", "--matches", "256", "--max_episodes", "256", "--body", "128,128"]
TRAIN += ["--encoder", "features", "--eval_matches", "32", "--no-eval_gif", "--batch_size", "1920"]
FLAG = ["--threads", "1"]
ONE_THREAD = {
    "ppo": ("marl.training.trainer", "Trainer.run", "", ["train", "--algo", "ppo", *FLAG, "--update_interval", "2560"]),
    "ddpg": ("marl.training.trainer", "Trainer.run", "1", ["train", "--algo", "ddpg", "--updates", "2"]),
    "qmix": ("marl.training.trainer", "Trainer.run", "", ["train", "--algo", "qmix", *FLAG, "--updates", "1"]),
    "plan": (
        "opponents.match",
        "play_some",
        "1",
        ["eval", "--home", "plan=4x4:champion_small", "--away", "level2", "--matches", "4"],
    ),
}


@pytest.mark.parametrize("case", ONE_THREAD)
def test_one_thread_means_one(case, tmp_path) -> None:
    """CPU time is that of one thread, with some of the console's and the writer's; two halves would use 1.9. A busy
    machine makes the bound wider, never narrower.
    """
    module, name, threads, words = ONE_THREAD[case]
    words = [*words, *([*TRAIN, "--runs_dir", str(tmp_path)] if words[0] == "train" else ["--device", "cpu"])]
    out = in_fresh_process(MEASURED, module, name, threads, *words)
    cpu, clock = map(float, next(line for line in out.splitlines() if line.startswith("BUSY")).split()[1:])
    assert cpu <= 1.4 * clock, f"{cpu / clock:.2f} threads were busy"
    assert words[0] != "train" or "1 thread (" in out, "the banner says how many"
