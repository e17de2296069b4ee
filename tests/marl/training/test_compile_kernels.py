"""The forked processes that compile kernels beside the first start on a GPU: when there are any, and how they end."""

import os
import subprocess
import sys

import pytest
import torch
from helpers.command import ROOT

from marl.compute import machine
from marl.config.train_config import read_config
from marl.training import compile_kernels
from marl.training.compile_kernels import compiling_kernels

# argv: folder, device of the training. One part writes what it gets, one has a mistake, one does not end.
PROGRAM = """
import os, signal, sys
from pathlib import Path
import torch
from marl.config.train_config import read_config
from marl.training.compile_kernels import KernelCompilers

folder, device = Path(sys.argv[1]), torch.device(sys.argv[2])
told, tell = os.pipe()

def write(config):
    print("said by a part")
    (folder / "algo").write_text(config.algo)
    os.write(tell, b".")

def fail(config):
    raise ValueError("a mistake in a part")

def wait(config):
    (folder / "waits").touch()
    os.write(tell, b".")
    signal.pause()

compilers = KernelCompilers([write, fail, wait])
processes = compilers._processes
compilers.begin(read_config(["--algo", "ppo"]), device)
for _ in range(2 if device.type == "cuda" else 0):
    assert os.read(told, 1) == b"."  # when a part has written its file
compilers.close()
for process in processes:
    assert not os.path.exists(f"/proc/{process}"), process
print("closed")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="GPUs of other systems have no CUDA")
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_parts_get_the_configuration_and_end_with_the_training(device, tmp_path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), device]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\n", "")
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == ({"algo": "ppo", "waits": ""} if device == "cuda" else {})


# What is special, and the processes.
CASES = {
    "a cold start": ({}, 3),
    "kernels are compiled": ({"compiled": True}, 0),
    "no GPU": ({"driver": "nowhere"}, 0),
    "a CPU is asked for": ({"words": ["--device", "cpu"]}, 0),
    "GPUs are hidden": ({"env": {"CUDA_VISIBLE_DEVICES": ""}}, 0),
    "one core": ({"cores": 1}, 0),
    "two cores": ({"cores": 2, "words": ["--device", "cuda:1"]}, 1),
    "more cores than parts": ({"cores": 64}, len(compile_kernels.PARTS)),
    "limited threads": ({"env": {"OMP_NUM_THREADS": "1"}}, 0),
    "a rank": ({"env": {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}}, 0),
}


@pytest.mark.parametrize(("case", "processes"), CASES.values(), ids=CASES)
def test_how_many_processes_there_are(case, processes, monkeypatch, tmp_path) -> None:
    parts = []

    def fork(given) -> FakeCompilers:
        parts.append(given)
        return FakeCompilers()

    monkeypatch.setattr(compile_kernels, "KernelCompilers", fork)
    monkeypatch.setattr(compile_kernels, "DRIVER", case.get("driver", str(tmp_path)))
    monkeypatch.setattr(compile_kernels, "_are_compiled", lambda: case.get("compiled", False))
    monkeypatch.setattr(machine, "usable_cores", lambda: case.get("cores", 4))
    monkeypatch.setattr(compile_kernels.threading, "active_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in case.get("env", {}).items():
        monkeypatch.setenv(name, value)
    with compiling_kernels(read_config(case.get("words", []))):
        pass
    assert [len(given) for given in parts] == [processes]


class FakeCompilers:
    def close(self) -> None:
        pass


# Kernels that the parts have compiled, and those that a short training adds: it finds nearly all in the cache.
COLD = """
import sys
from numba.cuda.dispatcher import CUDADispatcher
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
import torch
from marl.training import compile_kernels
part = getattr(compile_kernels, sys.argv[1])
part(resolve(read_config(sys.argv[2:]), torch.device("cuda", 0)))
"""


@pytest.mark.needs_cuda
@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_a_training_then_compiles_the_rows_of_its_evaluations_alone(algo, tmp_path) -> None:
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    words = ["--algo", algo, "--encoder", "features", "--device", "cuda", "--max-episodes", "2000"]
    for part in compile_kernels.PARTS:
        done = subprocess.run(
            [sys.executable, "-c", COLD, part.__name__, *words], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    run = [sys.executable, "-m", "marl", "train", *words, "--runs-dir", str(tmp_path / "runs"), "--no-eval-gif"]
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compiled = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("snakes: compiling")]
    assert [line.split()[2] for line in compiled] == ["features"], compiled
