"""The second process that compiles beside a training: what it compiles, when it starts, how it ends."""

import subprocess
import sys

import pytest
from helpers.command import ROOT

from arena import jit
from marl.compute import machine
from marl.config.train_config import read_config
from marl.training import compile_ahead
from marl.training.compile_ahead import compiling_ahead

# Compiled functions after `compile_training`, and those that a training of the same configuration adds.
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

def trained_alone(config, threads, overlaps):
    encoders = dict(ENCODERS)
    compile_ahead.compile_training(replace(config, threads=threads), overlaps)
    ENCODERS.update(encoders)
    known.update(compiled())
    return kept(config, threads, overlaps)

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
    with compiling_ahead(read_config(["--config", "smoke"]), 1, False):
        assert not started
        (call,) = jit._at_first_compile
        call()
        assert started[0].poll() is None
    assert started[0].returncode is not None
    assert not jit._at_first_compile


def test_nothing_is_started_without_a_compile(started) -> None:
    with compiling_ahead(read_config(["--config", "smoke"]), 1, False):
        pass
    assert not started


@pytest.mark.parametrize(("cores", "limit"), [(1, None), (2, "1")])
def test_nothing_is_started_on_one_core(cores, limit, started, monkeypatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    with compiling_ahead(read_config(["--config", "smoke"]), 1, False):
        assert not jit._at_first_compile
