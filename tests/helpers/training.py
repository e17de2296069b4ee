"""Runs of `train` of a second or two, in this process or in a process of their own, and the files of such runs."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from arena import jit
from helpers import train_as_ranks
from helpers.command import ROOT, on_cpu, without_compiling
from helpers.forking import Forked, snakes
from helpers.ports import free_port
from helpers.short_matches import short_matches
from marl.cli import main as cli
from marl.compute.process_state import process_state_restored

SMOKE = str(ROOT / "configs" / "smoke.yaml")
# 16 episodes; a log line every 4, a checkpoint every 8. Of any learner, and of DDPG.
TINY_ANY = [
    "train", "--config", SMOKE, "--device", "cpu", "--matches", "8",
    "--max_episodes", "16", "--log_interval", "4", "--save_interval", "8", "--eval_matches", "1",
    "--eval_opponents", "level0",
]  # fmt: skip
TINY = [*TINY_ANY, "--turns", "20", "--updates", "1"]
RANKS = [*TINY, "--matches", "4", "--check_sync", "1"]  # two ranks x 4 are the matches of TINY
GROUP_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NPROC")
LIMIT = 300  # seconds that any process of a test may take: it ends a process that hangs, also on a busy machine


def without_ranks() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in GROUP_VARIABLES}


def here(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which has torch loaded."""
    call = on_cpu([str(word) for word in words])
    out, err = io.StringIO(), io.StringIO()
    # No second process compiles: other workers use the cores.
    without_second = mock.patch.object(jit, "at_first_compile")
    # Some commands set variables for processes that they would start; `bench` sets threads.
    with (
        process_state_restored(),
        redirect_stdout(out),
        redirect_stderr(err),
        short_matches(call),
        without_second,
        mock.patch.object(cli, "_prepare_libraries"),  # they are in use
    ):
        code = cli.main(call)
    return subprocess.CompletedProcess(list(words), code, out.getvalue(), without_compiling(err.getvalue()))


@contextmanager
def started(command: list[str | Path], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A new Python process; it is ended with the test, or after LIMIT seconds."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=without_ranks() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with _watched(process):
        yield process


@contextmanager
def forked_call(call: Callable[..., int], *words: str | Path, **environment: str) -> Iterator[Forked]:
    """Like `started`, but forked from a process that has torch loaded, so that it starts at once."""
    process = Forked(call, *map(str, words), environment=without_ranks() | environment)
    with _watched(process):
        yield process


def forked(words: list[str | Path], **environment: str) -> AbstractContextManager[Forked]:
    """The command line in such a process."""
    return forked_call(snakes, *words, **environment)


def alone(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a forked process to its end."""
    with forked(list(words)) as process:
        return finish(process)


def compile_training(runs_dir: Path) -> None:
    """Compile what a small training needs, in turn with the other test processes (compile_in_turn.py). Processes that a
    test starts by a command take no turns: in a fresh checkout all of them would compile it at the same time."""
    done = alone(*TINY, "--max_episodes", "1", "--runs_dir", runs_dir)
    assert done.returncode == 0, done.stderr


@contextmanager
def _watched(process: subprocess.Popen[str] | Forked) -> Iterator[None]:
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()  # a launcher ends its ranks
            try:
                process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        watchdog.cancel()


def wait_for(process: subprocess.Popen[str], start: str) -> str:
    """Read the output of a process up to a line that begins with `start`."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(start):
            return line
    raise AssertionError(f"it ended without {start!r}: {''.join(seen)} {process.stderr.read()}")


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess(process.args, process.returncode, out, without_compiling(err))


def start_ranks(folder: Path, *chains: dict[str, list[str]]) -> Callable[[], dict[str, list[tuple[int, str, str]]]]:
    """Start trainings in two ranks each, see train_as_ranks.py. The returned function waits for their end and gives
    (exit code, stdout, stderr) of each rank.

    The trainings of a chain run one after another, the chains side by side.
    """
    process = Forked(train_as_ranks.main, str(folder), chains, environment=without_ranks())

    def results() -> dict[str, list[tuple[int, str, str]]]:
        out, err = process.communicate(timeout=LIMIT * sum(map(len, chains)))
        assert process.returncode == 0, err
        return {
            name: [
                (
                    code,
                    (folder / f"{name}.{rank}.out").read_text(),
                    without_compiling((folder / f"{name}.{rank}.err").read_text()),
                )
                for rank, code in enumerate(codes)
            ]
            for name, codes in json.loads(out).items()
        }

    return results


def as_ranks(folder: Path, *chains: dict[str, list[str]]) -> dict[str, list[tuple[int, str, str]]]:
    """Run such trainings to their end."""
    return start_ranks(folder, *chains)()


def as_two_ranks(program: Callable[..., int], folder: Path, *words: str) -> list[dict[str, Any]]:
    """What a program has written as two ranks: program(folder, *words) writes FOLDER/RANK.pt."""
    meeting = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    try:
        for rank in ("0", "1"):
            environment = without_ranks() | meeting | {"RANK": rank, "LOCAL_RANK": rank}
            processes.append(Forked(program, str(folder), *words, environment=environment))
        for process in processes:
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, err
    finally:
        for process in processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True, map_location="cpu") for rank in (0, 1)]


def ranks_of(launcher: int) -> dict[int, int]:
    """Process ids of a launcher's ranks, by rank: read from their environment, or from their name if forked."""
    found = {}
    for task in Path(f"/proc/{launcher}/task").iterdir():
        for pid in (task / "children").read_text().split():
            words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            words.append(Path(f"/proc/{pid}/comm").read_text())
            for rank in (int(word[5:]) for word in words if word.startswith(("RANK=", "rank "))):
                found[rank] = int(pid)
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds ranks in Linux's /proc")


def the_run(runs_dir: Path) -> Path:
    """The only run in a folder of runs."""
    (run,) = (Path(runs_dir) / "snakes_3v3").iterdir()
    return run


def logged(run: Path) -> list[dict[str, Any]]:
    """The log lines of training in metrics.jsonl, those of evaluations left out."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "time/global_fps" in line]


def manifest(run: Path, episode: int) -> dict[str, Any]:
    return json.loads((run / "checkpoints" / f"episode_{episode}" / "manifest.json").read_text())


def weights_digest(run: Path) -> str:
    """Of the newest checkpoint."""
    newest = max((run / "checkpoints").glob("episode_*"), key=lambda folder: int(folder.name.rpartition("_")[2]))
    return hashlib.sha256((newest / "weights.safetensors").read_bytes()).hexdigest()


def names_in(run: Path) -> list[str]:
    """The past selves in a run folder, by name."""
    return sorted(file.stem for file in (run / "past_selves").iterdir())


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files in a folder, to see whether anything has changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_goes_on(run: Path, last_episode: int) -> None:
    """Every step is logged once, in order, up to the last episode, and all counters rise with it."""
    lines = logged(run)
    assert lines[-1]["step"] == last_episode
    for name in ("step", "train/env_steps", "train/updates", "time/seconds"):
        values = [line[name] for line in lines]
        assert all(a < b for a, b in pairwise(values)), (name, values)


@contextmanager
def tiny_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of this size; the test is skipped if it cannot be mounted."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
