"""Speed, waiting and memory of every rank. Ranks measure for themselves and exchange their numbers at log lines; nobody
waits for it between them, neither for a rank nor for a device.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from arena.control_groups import text
from marl.ranks import rank_log
from marl.ranks.process_group import Ranks, Solo

MIB = 2**20


class RankWindow(NamedTuple):
    """What one rank has measured since the last log line, or in the whole run."""

    env_steps: float = 0.0  # match-turns that were timed
    play_seconds: float = 0.0  # that they took
    waited: float = 0.0  # seconds in collectives
    seconds: float = 0.0  # of training
    memory: float = 0.0  # MiB of the process
    gpu_memory: float = 0.0  # MiB that torch holds on the GPU

    @property
    def speed(self) -> float:
        """Env steps per second while the rank plays."""
        return self.env_steps / max(1e-9, self.play_seconds)

    @property
    def waited_percent(self) -> float:
        return min(100.0, 100 * self.waited / max(1e-9, self.seconds))

    def joined(self, later: "RankWindow") -> "RankWindow":
        """Both windows: times and steps are added, of the memory the most counts."""
        memory = max(self.memory, later.memory), max(self.gpu_memory, later.gpu_memory)
        env_steps, play_seconds = self.env_steps + later.env_steps, self.play_seconds + later.play_seconds
        return RankWindow(env_steps, play_seconds, self.waited + later.waited, self.seconds + later.seconds, *memory)

    def __str__(self) -> str:
        return (
            f"{self.speed:,.0f} env steps/s while playing, {self.waited:.2f} of {self.seconds:.2f} s in sums over the "
            f"ranks, {self.memory:,.0f} MiB" + f", {self.gpu_memory:,.0f} MiB on the GPU" * (self.gpu_memory > 0)
        )


# Name of a gauge -> its value, its name in the summary, and its format there.
Gauge = tuple[Callable[[RankWindow], float], str, str]
GAUGES: dict[str, Gauge] = {
    "env_steps_per_second": (lambda window: window.speed, "env steps/s while playing", "{:,.0f}"),
    "waited_percent": (lambda window: window.waited_percent, "waited for others", "{:.1f} %"),
    "memory_mib": (lambda window: window.memory, "memory", "{:,.0f} MiB"),
    "gpu_memory_mib": (lambda window: window.gpu_memory, "memory of the GPU", "{:,.0f} MiB"),
}


class RankGauges:
    """Measures one rank, and knows the numbers of all ranks after each exchange."""

    def __init__(self, group: Solo | Ranks) -> None:
        self._group = group
        self._is_cuda = group.device.type == "cuda"
        self._is_first = True  # the first turns may compile
        self._env_steps, self._play_seconds = 0, 0.0
        self._waited = group.waited  # at the last exchange, pauses added
        # On a GPU the turns of one cycle between two log lines are timed, by the device itself.
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if self._is_cuda else []
        self.windows: list[RankWindow] = []  # of all ranks, at the last exchange
        self.totals = [RankWindow()] * group.world  # of all ranks, over the run of this process

    @contextmanager
    def playing(self, env_steps: int) -> Iterator[None]:
        """A block in which this rank plays these match-turns; it holds no collective."""
        if self._group.world == 1:
            yield
            return
        if self._is_cuda:
            begin, end = self._events
            begin.record()
            yield
            end.record()
            self._env_steps = env_steps
            return
        begun = time.perf_counter()
        yield
        if not self._is_first:
            self._env_steps += env_steps
            self._play_seconds += time.perf_counter() - begun
        self._is_first = False

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Waiting in the block does not count: it is no training."""
        what, before, begun = self._group.doing, self._group.waited, time.perf_counter()
        try:
            yield
        finally:
            self._waited += self._group.waited - before
            rank_log.write(f"{what}: {time.perf_counter() - begun:.2f} s")

    def exchange(self, episode: int, seconds: float) -> dict[str, float]:
        """Metrics of all ranks since the last exchange, by tag; none for a single one. A collective.

        seconds: of training since then. On a GPU the caller waits for the device right after this.
        """
        group = self._group
        if group.world == 1:
            return {}
        if self._is_cuda and self._env_steps:
            begin, end = self._events
            end.synchronize()
            self._play_seconds = begin.elapsed_time(end) / 1000
        waited = group.waited
        gpu_memory = torch.cuda.memory_reserved(group.device) / MIB if self._is_cuda else 0.0
        mine = RankWindow(
            self._env_steps, self._play_seconds, waited - self._waited, seconds, _resident_mib(), gpu_memory
        )
        rank_log.write(f"episode {episode}: {mine}")
        table = torch.zeros(group.world, len(mine), dtype=torch.float64)
        table[group.rank] = torch.tensor(mine, dtype=torch.float64)
        self.windows = [RankWindow(*row) for row in group.sum_(table).tolist()]
        self.totals = [total.joined(window) for total, window in zip(self.totals, self.windows, strict=True)]
        self._env_steps, self._play_seconds, self._waited = 0, 0.0, waited
        return _metrics(self.windows, self._gauges(self.windows))

    def summary(self) -> list[Sequence[str]]:
        """A table of the run for the console; empty for a single rank."""
        if not any(total.seconds for total in self.totals):
            return []
        rows: list[Sequence[str]] = [("each rank", "mean", "least", "", "most", "")]
        for read, title, form in self._gauges(self.totals).values():
            values = [read(total) for total in self.totals]
            least, most = min(values), max(values)
            places = [f"rank {values.index(value)}" for value in (least, most)]
            shown = [form.format(value) for value in (sum(values) / len(values), least, most)]
            rows.append((title, shown[0], shown[1], places[0], shown[2], places[1]))
        return rows

    def _gauges(self, windows: Sequence[RankWindow]) -> dict[str, Gauge]:
        """Those that can be measured here. NCCL's ranks wait on their GPUs, where the host does not see it."""
        hidden = {"waited_percent"} if self._is_cuda else {"gpu_memory_mib"}
        hidden |= set() if all(window.env_steps for window in windows) else {"env_steps_per_second"}
        hidden |= set() if all(window.memory for window in windows) else {"memory_mib"}
        return {name: gauge for name, gauge in GAUGES.items() if name not in hidden}


def _metrics(windows: Sequence[RankWindow], gauges: dict[str, Gauge]) -> dict[str, float]:
    metrics = {}
    for name, (read, _, _) in gauges.items():
        values = [read(window) for window in windows]
        metrics[f"ranks/{name}_mean"] = sum(values) / len(values)
        metrics[f"ranks/{name}_min"], metrics[f"ranks/{name}_max"] = min(values), max(values)
        if name == "env_steps_per_second":
            metrics["ranks/slowest"] = float(values.index(min(values)))
    return metrics


def _resident_mib() -> float:
    """Memory of this process; 0 where the system does not tell it."""
    pages = text(Path("/proc/self/statm")).split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") / MIB if pages else 0.0
