"""The other processes that compile beside a training: what they compile, when they start, how they end."""

import io
import os
import subprocess
import sys

import pytest
import torch
from helpers.command import ROOT

from arena import jit
from marl.compute import machine
from marl.config.train_config import TrainConfig, read_config
from marl.training import compile_ahead
from marl.training.compile_ahead import PARTS, compiling_ahead
from marl.training.cpu_setup import CpuSetup

# Compiled functions after the calls of TrainingCalls, and those that a training of the same configuration adds.
PROGRAM = """
import gc, sys
from dataclasses import replace
import torch
from numba.core.registry import CPUDispatcher
from arena.encoders import ENCODERS
from marl.cli.main import main
from marl.commands import train
from marl.training import compile_ahead

def compiled():
    found = [(each, each.py_func) for each in gc.get_objects() if type(each) is CPUDispatcher]
    ours = [(each, f) for each, f in found if not f.__module__.startswith("numba.")]
    return {(f.__module__, f.__qualname__, str(kinds)) for each, f in ours for kinds in each.signatures}

def trained_alone(config, device, cpu):
    encoders = dict(ENCODERS)
    calls = compile_ahead.TrainingCalls(replace(config, threads=cpu.threads), device, cpu.halves)
    calls.make(compile_ahead.PARTS["cpu"])
    ENCODERS.update(encoders)
    known.update(compiled())
    return kept(config, device, cpu)

known, kept = set(), compile_ahead.compiling_ahead
compile_ahead.compiling_ahead = trained_alone
runs, *algos = sys.argv[1:]
for algo in algos:
    words = ["train", "--config", "smoke", "--algo", algo, "--encoder", "features", "--device", "cpu"]
    words += ["--eval-matches", "4", "--runs-dir", runs, "--no-eval-gif", "--threads", "1", "--max-episodes", "12"]
    assert main(words) == 0
    print(algo, sorted({(module, name) for module, name, _ in compiled() - known}), file=sys.stderr)
    known.update(compiled())
"""


def test_a_training_then_compiles_the_encoder_and_little_else(tmp_path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "ddpg"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddpg ")]
    assert len(lines) == 1, done.stderr
    for line in lines:
        added = eval(line.partition(" ")[2])
        assert all(module.startswith("arena.encoders") or "encode" in name for module, name in added), line


# Makes the calls of one part on a GPU.
PART = """
import sys
import torch
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.training.compile_ahead import TrainingCalls

device = torch.device("cuda", 0)
TrainingCalls(resolve(read_config(sys.argv[2:]), device), device, False).make([sys.argv[1]])
"""


@pytest.mark.needs_cuda
@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_a_training_on_a_gpu_then_compiles_the_rows_of_its_evaluations_alone(algo, tmp_path) -> None:
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    words = ["--algo", algo, "--encoder", "features", "--device", "cuda", "--max-episodes", "2000"]
    for part in PARTS["cuda"]:
        done = subprocess.run(
            [sys.executable, "-c", PART, part, *words], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    run = [sys.executable, "-m", "marl", "train", *words, "--runs-dir", str(tmp_path / "runs"), "--no-eval-gif"]
    env |= {"OMP_NUM_THREADS": "1"}  # no other processes
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compiled = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("snakes: compiling")]
    assert [line.split()[2] for line in compiled] == ["features"], compiled


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ON_CPU = CpuSetup(1, "test", False, "key", False)


def smoke() -> TrainConfig:
    return read_config(["--config", "smoke"])


@pytest.fixture
def started(monkeypatch) -> list[subprocess.Popen]:
    """The processes that were started; there are two cores."""
    processes: list[subprocess.Popen] = []

    def start(*words, **options) -> subprocess.Popen:
        processes.append(Popen(*words, **options))
        return processes[-1]

    Popen = subprocess.Popen
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", start)
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return processes


def test_the_first_compile_starts_it_and_the_training_ends_it(started) -> None:
    with compiling_ahead(smoke(), CPU, ON_CPU):
        assert not started
        (call,) = jit._at_first_compile
        call()
        assert started[0].poll() is None
    assert started[0].returncode is not None
    assert not jit._at_first_compile


def test_nothing_is_started_without_a_compile(started) -> None:
    with compiling_ahead(smoke(), CPU, ON_CPU):
        pass
    assert not started


@pytest.mark.parametrize(("cores", "limit"), [(1, None), (2, "1")])
def test_nothing_is_started_on_one_core(cores, limit, started, monkeypatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    with compiling_ahead(smoke(), CPU, ON_CPU):
        assert not jit._at_first_compile


@pytest.mark.parametrize(
    ("device", "cores", "processes"), [(CPU, 2, 1), (CPU, 3, 2), (CPU, 64, 3), (GPU, 2, 1), (GPU, 4, 3), (GPU, 64, 5)]
)
def test_the_parts_are_dealt_to_as_many_processes_as_there_are_cores_left(
    device, cores, processes, monkeypatch
) -> None:
    dealt = []

    class Process:
        def __init__(self, *words, **options) -> None:
            self.stdin = io.BytesIO()

        def kill(self) -> None: ...

        def wait(self) -> None: ...

    def keep(given) -> bytes:
        dealt.append(given[2])
        return b""

    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(compile_ahead.pickle, "dumps", keep)
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with compiling_ahead(smoke(), device, ON_CPU if device is CPU else None):
        (call,) = jit._at_first_compile
        call()
    assert len(dealt) == processes
    assert sorted(part for parts in dealt for part in parts) == sorted(PARTS[device.type])
