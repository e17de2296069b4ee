"""The speed of training by number of ranks: real ranks on this machine, and what the model says of others.

Every number of ranks is a launch of its own, as `train --distributed` starts its ranks; scaling_rank.py is the program
of each rank. Evaluations and checkpoints are measured once and count at the intervals of the configuration.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.rules import TURNS
from marl.bench.scaling_model import (
    GPU_LINKS,
    GPU_RANKS,
    SHARED,
    Cycle,
    Link,
    Work,
    fit_link,
    fit_shared_memory,
    predict_cycle,
)
from marl.compute import machine
from marl.config import autoscale
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.wording import count

if TYPE_CHECKING:
    import torch

PROGRAM = ("-m", "marl.bench.scaling_rank")
RANKS = (1, 2, 4, 8)
PARTS = ("collect", "learn", "reduction", "waiting", "evaluation", "saving")
HERE = "this machine"
FORMULA = "cycle(N) = sum of E[slowest of N] over the work between reductions + sum of reduction(bytes, N)"


class RanksFailed(Exception):
    """Ranks that have printed the reason themselves, and the exit code of their launch."""

    def __init__(self, code: int) -> None:
        self.code = code


class ScalingBench:
    """What `bench scaling` measures. words: flags of training. ranks: numbers of ranks; 1 is always measured."""

    def __init__(self, words: Sequence[str], ranks: Sequence[int] | None, seconds: float) -> None:
        from marl.ranks import environment

        if environment.is_rank():
            raise UserError("bench scaling starts its ranks itself; call it without torchrun")
        self._words, self._seconds = list(words), seconds
        self._config = read_config(words)
        device, self._ranks = _place_ranks(self._config, ranks)
        self.notes = list(_notes(self._config, device, self._ranks))

    def report(self) -> dict[str, Any]:
        """Everything measured and predicted, ready for JSON."""
        measured = [self._launch("ranks", number) for number in self._ranks]
        counts = sorted({*self._ranks, *GPU_RANKS} - {1})
        found = self._launch(f"shares:{','.join(map(str, counts))}", 1)
        shares = {ranks: work for ranks, work in found.items() if "problem" not in work}
        left_out = [
            f"no model of {ranks} ranks: {work['problem']}" for ranks, work in found.items() if ranks not in shares
        ]
        links = [*_local_links(measured), *GPU_LINKS]
        alone = measured[0]
        rows = [_row(found, alone) for found in measured]
        predictions = [each for link in links for each in self._predictions(link, shares, alone)]
        return {
            "algo": self._config.algo,
            "device": alone["device"],
            "scaling": self._config.ddp.scaling,
            "rows": rows,
            "model": {
                "formula": FORMULA,
                "links": {link.name: link.as_dict() for link in links},
                "work": {ranks: _about(work) for ranks, work in shares.items()},
                "predictions": predictions,
            },
            "notes": [*self.notes, *left_out],
        }

    def _launch(self, task: str, ranks: int) -> dict[str, Any]:
        from marl.ranks.launch import launch

        folder = tempfile.mkdtemp(prefix="snakes-scaling-")
        try:
            file = Path(folder, "results.json")
            words = [task, str(file), str(self._seconds), *self._words]
            with _environment_kept():
                code = launch(words, ranks, timeout=self._config.ddp.timeout, program=PROGRAM)
            if code:
                raise RanksFailed(code)
            return json.loads(file.read_text())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _predictions(self, link: Link, shares: dict[str, Any], alone: dict[str, Any]) -> Iterator[dict[str, Any]]:
        here = link.name == HERE
        for number in self._ranks if here else GPU_RANKS:
            found = shares.get(str(number))
            if found is None:
                continue
            work = Work(found["stretches"], {int(k): v for k, v in found["reductions"].items()}, found["cycles"])
            crowded = here and alone["device"] == "cpu"
            slower = max(1.0, number * found["threads"] / machine.usable_cores()) if crowded else 1.0
            cycle = predict_cycle(work, number, link, slower)
            yield _prediction(link, number, cycle, found, alone)


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
        totals = {path: number * autoscale.share(path.rpartition(".")[2], size, number) for path, size in whole.items()}
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
    if device.type == "cpu":
        yield "rows for NVLink and InfiniBand: ranks that compute as one here does; measure on a GPU for those of GPUs"


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """A launch sets variables for its number of ranks."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# --- what is reported


def _local_links(measured: Sequence[dict[str, Any]]) -> list[Link]:
    """The link between the ranks of this machine, from the fewest ranks that have one."""
    found = next((each for each in measured if each["link"] and each["backend"] in ("gloo", SHARED)), None)
    if found is None:
        return []
    small, large = (tuple(found["link"][name]) for name in ("small", "large"))
    if found["backend"] == SHARED:
        return [fit_shared_memory(HERE, small, large)]
    return [fit_link(HERE, found["ranks"], small, large)]


def _seconds_per_step(cycle: dict[str, float], steps: int, pauses: dict[str, float]) -> dict[str, float]:
    """Seconds per env step of each part of a run."""
    return {name: seconds / steps for name, seconds in cycle.items()} | pauses


def _pauses(found: dict[str, Any], evaluating: int = 1) -> dict[str, float]:
    """Seconds per env step for evaluations and checkpoints. evaluating: ranks that share the evaluation."""

    def per_step(seconds: float, interval: int) -> float:
        return seconds / (interval * TURNS) if interval > 0 else 0.0

    return {
        "evaluation": per_step(found["evaluation_seconds"] / evaluating, found["eval_interval"]),
        "saving": per_step(found["saving_seconds"], found["save_interval"]),
    }


def _row(found: dict[str, Any], alone: dict[str, Any]) -> dict[str, Any]:
    """A measured number of ranks."""
    spent = _measured_seconds(found)
    total, one = sum(spent.values()), sum(_measured_seconds(alone).values())
    steps = found["turns"] * found["matches"] * found["ranks"]
    return {
        "ranks": found["ranks"],
        "backend": found["backend"],
        "threads": found["threads"],
        "matches_per_rank": found["matches"],
        "batch_per_rank": found["batch"],
        "env_steps_per_second": 1 / total,
        "updates_per_second": found["updates"] / steps / total,
        "ratio": one / total,
        "shares": {name: spent[name] / total for name in PARTS},
    }


def _measured_seconds(found: dict[str, Any]) -> dict[str, float]:
    """Seconds per env step. The parts of a cycle are measured in slower cycles of their own: they share its time."""
    parts = found["parts"]
    scale = found["cycle_seconds"] / sum(parts.values())
    steps = found["turns"] * found["matches"] * found["ranks"]
    return _seconds_per_step({name: scale * value for name, value in parts.items()}, steps, _pauses(found))


def _prediction(link: Link, ranks: int, cycle: Cycle, work: dict[str, Any], alone: dict[str, Any]) -> dict[str, Any]:
    steps = work["turns"] * work["matches"] * ranks
    spent = _seconds_per_step(cycle._asdict(), steps, _pauses(alone, ranks))
    total, one = sum(spent.values()), sum(_measured_seconds(alone).values())
    milliseconds = {f"{name}_ms": 1e3 * value / work["updates"] for name, value in cycle._asdict().items()}
    return {
        "link": link.name,
        "ranks": ranks,
        **milliseconds,
        "env_steps_per_second": 1 / total,
        "updates_per_second": work["updates"] / steps / total,
        "ratio": one / total,
    }


def _about(work: dict[str, Any]) -> dict[str, Any]:
    """The measured work of a rank among N, without the single times."""
    seconds = sum(map(sum, work["stretches"])) / work["cycles"]
    return {
        "threads": work["threads"],
        "matches_per_rank": work["matches"],
        "compute_ms_per_update": 1e3 * seconds / work["updates"],
        "updates_per_cycle": work["updates"],
        "reductions_per_cycle": work["reductions"],
        "cycles_measured": work["cycles"],
    }


def table(report: dict[str, Any]) -> str:
    """The report as a user reads it."""
    model = report["model"]
    lines = [
        f"{report['algo']} on {report['device']}, --scaling {report['scaling']}",
        "",
        f"{'ranks':>5} {'matches':>8} {'batch':>7} {'env steps/s':>12} {'updates/s':>10} {'ratio':>6}  "
        + " ".join(f"{name:>10}" for name in PARTS),
    ]
    for row in report["rows"]:
        lines.append(
            f"{row['ranks']:5} {row['matches_per_rank']:8,} {row['batch_per_rank']:7,} "
            f"{row['env_steps_per_second']:12,.0f} {row['updates_per_second']:10,.1f} {row['ratio']:6.2f}  "
            + " ".join(f"{row['shares'][name]:10.1%}" for name in PARTS)
        )
    lines += [
        "matches and batch are per rank; ratio: to one rank; then shares of the time",
        "",
        f"model: {model['formula']}",
    ]
    for name, link in model["links"].items():
        how = "measured" if name == HERE else "assumed"
        lines.append(
            f"  {name}: {link['backend']}, latency {link['latency_us']:,.1f} us, {link['bandwidth_gb_s']:,.2f} GB/s, "
            f"start {link['start_us']:,.0f} us ({how})"
        )
    lines += [
        "",
        f"{'link':12} {'ranks':>5} {'env steps/s':>12} {'updates/s':>10} {'ratio':>6}  ms per update: "
        f"{'compute':>8} {'waiting':>8} {'reduction':>9}",
    ]
    for each in model["predictions"]:
        lines.append(
            f"{each['link']:12} {each['ranks']:5} {each['env_steps_per_second']:12,.0f} "
            f"{each['updates_per_second']:10,.1f} {each['ratio']:6.2f}                 "
            f"{each['compute_ms']:8.3f} {each['waiting_ms']:8.3f} {each['reduction_ms']:9.3f}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in report["notes"])])
