"""The speed of training by number of ranks, measured with real ranks on this machine.

Every number of ranks is a launch of its own, as `train --distributed` starts its ranks; scaling_rank.py is the program
of each rank. Evaluations and checkpoints are left out.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.cli.wording import count
from marl.compute import machine
from marl.config import autoscale
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError

if TYPE_CHECKING:
    import torch

PROGRAM = ("-m", "marl.bench.scaling_rank")
RANKS = (1, 2, 4, 8)


class RanksFailed(Exception):
    """Ranks that have printed the reason themselves, and the exit code of their launch."""

    def __init__(self, code: int) -> None:
        self.code = code


class ScalingBench:
    """What `bench scaling` measures. argv: flags of training. ranks: numbers of ranks; 1 is always measured."""

    def __init__(self, argv: Sequence[str], ranks: Sequence[int] | None, seconds: float) -> None:
        from marl.ranks import environment

        if environment.is_rank():
            raise UserError("bench scaling starts its ranks itself; call it without torchrun")
        self._argv, self._seconds = list(argv), seconds
        self._config = read_config(argv)
        self._device, self._ranks = _place_ranks(self._config, ranks)
        self.algo = self._config.algo
        self.notes = list(_notes(self._config, self._device, self._ranks))

    def report(self) -> dict[str, Any]:
        """Everything measured, ready for JSON."""
        rows = [self._launch(number) for number in self._ranks]
        alone = rows[0]["env_steps_per_second"]
        for row in rows:
            row["speedup"] = row["env_steps_per_second"] / alone
            row["efficiency"] = row["speedup"] / row["ranks"]
        differing = [f"{row['ranks']} ranks: {row['out_of_sync']}" for row in rows if row["out_of_sync"]]
        return {
            "algo": self.algo,
            "device": self._device.type,
            "scaling": self._config.ddp.scaling,
            "rows": rows,
            "notes": [*self.notes, *differing],
        }

    def _launch(self, ranks: int) -> dict[str, Any]:
        from marl.ranks.launch import launch

        folder = tempfile.mkdtemp(prefix="snakes-scaling-")
        try:
            file = Path(folder, "results.json")
            argv = [str(file), str(self._seconds), *self._argv]
            with _environment_kept():
                code = launch(argv, ranks, timeout=self._config.ddp.timeout, program=PROGRAM)
            if code:
                raise RanksFailed(code)
            return json.loads(file.read_text("utf-8"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _place_ranks(config: TrainConfig, asked: Sequence[int] | None) -> tuple["torch.device", list[int]]:
    """The device of the ranks and the numbers of ranks; a UserError if the machine has too few GPUs for them."""
    import torch

    from marl.ranks.placement import place

    gpus = torch.cuda.device_count()
    device = place(None, config.device, 0, 1, gpus)[1]
    ranks = sorted({1, *(asked or [number for number in RANKS if device.type == "cpu" or number <= gpus])})
    place(config.ddp.backend, config.device, 0, ranks[-1], gpus)
    return device, ranks


def _notes(config: TrainConfig, device: "torch.device", ranks: Sequence[int]) -> Iterator[str]:
    """What a reader of the table must know. A UserError if a number of ranks cannot share the run."""
    whole = autoscale.whole_run_sizes(config, device)
    for number in ranks:
        autoscale.resolve(config, device, 1, number)
        totals = {
            path: number * autoscale.per_rank(path.rpartition(".")[2], size, number) for path, size in whole.items()
        }
        for path, total in totals.items():
            if total != whole[path] and "buffer" not in path:
                yield f"{number} ranks do not divide {path} {whole[path]:,}: they have {total:,} in all"
    given = autoscale.given_sizes(config)
    if config.ddp.scaling == "strong" and given:
        yield f"{' and '.join(given)} as given for every rank: N ranks have N times as much"
    cores = machine.usable_cores()
    crowded = [str(number) for number in ranks if number > cores]
    if device.type == "cpu" and crowded:
        yield f"{', '.join(crowded)} ranks share {count(cores, 'core')}: they take turns, and can hardly be faster"


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """A launch sets variables for its number of ranks."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def table(report: dict[str, Any]) -> str:
    """The report as a user reads it."""
    lines = [
        f"{report['algo']} on {report['device']}, --scaling {report['scaling']}; matches and batch are per rank",
        "",
        f"{'ranks':>5} {'matches':>8} {'batch':>7} {'env steps/s':>12} {'speedup':>8} {'efficiency':>10}",
    ]
    for row in report["rows"]:
        lines.append(
            f"{row['ranks']:5} {row['matches_per_rank']:8,} {row['batch_per_rank']:7,} "
            f"{row['env_steps_per_second']:12,.0f} {row['speedup']:8.2f} {row['efficiency']:10.1%}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in report["notes"])])
