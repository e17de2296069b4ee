"""How long a training takes to reach a win rate: from its start as a process (Enter) to the evaluation that shows it.

The training is `snakes train` with the flags given, evaluated against the target alone, in a folder of its own that is
removed. The time is that of the evaluation's line in the metrics, which is written when its matches are played; so
`--eval_interval` and `--eval_matches` say how finely and how surely it is measured.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena import system
from marl.cli.arguments import refuse_flags
from marl.cli.invocation import command
from marl.metrics.run_metrics import LINES, read_lines
from marl.storage.run_folder import GROUP
from opponents.processes import end_with_parent

POLL = 0.05  # seconds between two looks at the metrics; the time is in them
GRACE = 90.0  # seconds a training has to save and end
TAKEN = ("--eval-opponents", "--runs-dir", "--run-name", "--resume", "--seed", "--league")


class TrainingFailed(Exception):
    """A training that has printed the reason itself, and its exit code."""

    def __init__(self, code: int) -> None:
        self.code = code


class Target(NamedTuple):
    opponent: str
    win_rate: float

    def __str__(self) -> str:
        return f"{self.opponent}:{self.win_rate:g}"


class SpeedrunBench:
    """What `bench speedrun` measures. argv: flags of training. notify: is told each evaluation."""

    def __init__(
        self, target: Target, seeds: Sequence[int], argv: Sequence[str], notify: Callable[[str], None] = print
    ) -> None:
        refuse_flags(argv, TAKEN, "bench speedrun", "it sets that itself (--seeds for several)")
        self._target, self._seeds, self._argv, self._notify = target, list(seeds), list(argv), notify

    def report(self) -> dict[str, Any]:
        """Everything measured, ready for JSON. `seconds` is None for a training that ended before it."""
        runs = [self._run(seed) for seed in self._seeds]
        reached = [run["seconds"] for run in runs]
        return {
            "target": str(self._target),
            "command": command("train", *self._argv),
            "runs": runs,
            "median_seconds": None if None in reached else statistics.median(reached),
        }

    def _run(self, seed: int) -> dict[str, Any]:
        folder = tempfile.mkdtemp(prefix="snakes-speedrun-")
        words = ["--seed", str(seed), "--eval-opponents", self._target.opponent, "--runs-dir", folder]
        begin = time.time()  # as in the lines of metrics
        training = subprocess.Popen(
            [sys.executable, "-m", "marl", "train", *self._argv, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            **system.apart_from_console(lambda: end_with_parent(signal.SIGTERM)),
        )
        try:
            found = self._watch(training, Path(folder), begin, seed)
            if found is None and training.returncode:
                raise TrainingFailed(training.returncode)
            return {"seed": seed, "seconds": None, "episode": None, "win_rate": None} | (found or {})
        finally:
            _end(training)
            shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, training: subprocess.Popen, folder: Path, begin: float, seed: int) -> dict[str, Any] | None:
        """The first evaluation that reaches the target; None if the training ends without one."""
        tag, seen = f"eval/win_rate_{self._target.opponent}", 0
        while True:
            has_ended = training.poll() is not None  # before the look: what it wrote last counts
            lines = [line for file in folder.glob(f"{GROUP}/*/{LINES}") for line in read_lines(file.parent)]
            rates = [(line[tag], line) for line in lines if line.get(tag) is not None]
            for rate, line in rates[seen:]:
                seconds = line["time"] - begin
                self._notify(f"seed {seed}, episode {line['step']:,}: {rate:.1%} after {seconds:.1f} s")
                if rate >= self._target.win_rate:
                    return {"seconds": seconds, "episode": line["step"], "win_rate": rate}
            seen = len(rates)
            if has_ended:
                return None
            time.sleep(POLL)


def _end(training: subprocess.Popen) -> None:
    """Ask it to end, and its ranks with it; kill it if it does not."""
    if training.poll() is None:
        system.ask_to_end(training)
        try:
            training.wait(GRACE)
        except subprocess.TimeoutExpired:
            training.kill()
    training.wait()


def table(report: dict[str, Any], about_machine: str) -> str:
    """The line of a table in Markdown, under its head."""
    each = [f"{run['seconds']:.1f}" if run["seconds"] is not None else "not reached" for run in report["runs"]]
    median = report["median_seconds"]
    seeds = ", ".join(f"{run['seed']}: {text}" for run, text in zip(report["runs"], each, strict=True))
    cells = [
        report["target"], "-" if median is None else f"{median:.1f}", seeds, about_machine, f"`{report['command']}`",
    ]  # fmt: skip
    heads = ["target", "seconds from Enter, median", "each seed", "machine", "command"]
    return "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", f"| {' | '.join(cells)} |"))
