"""The speed of the scripted opponents: all six seats of every match played by one of them, by device and batch size."""

from collections.abc import Callable, Iterator
from typing import Any

import numba
import torch

import arena
from arena import rules
from marl.bench.arena import captured, checked_devices
from marl.bench.timing import Row, best_rate
from marl.cli.wording import count
from opponents.loops import act, bind
from opponents.scripted import SCRIPTED

CPU_MATCHES = (1024,)
CUDA_MATCHES = (16384, 65536)
RECORDED = 64  # turns of each opponent's own play on which the step alone is measured


class OpponentsBench:
    """The rows of `bench opponents`; each is measured when it is requested."""

    def __init__(
        self, device: str | None, matches: list[int] | None, threads: list[int] | None, seconds: float
    ) -> None:
        self._devices, self._threads = checked_devices(device, threads or [1])
        self._matches = matches
        self._seconds = seconds
        self._slower: dict[str, float] = {}

    def facts(self) -> dict[str, Any]:
        """Time of a turn with the opponent's decisions, divided by its time without them, in the same matches."""
        return {"times_slower_than_step_alone": self._slower}

    def rows(self) -> Iterator[Row]:
        for device in self._devices:
            for matches in self._matches or (CPU_MATCHES if device == "cpu" else CUDA_MATCHES):
                for name, function in SCRIPTED.items():
                    batch = _played(function, matches, device)
                    yield from (self._cpu_rows if device == "cpu" else self._cuda_rows)(name, function, batch)

    def _cpu_rows(self, name: str, function: Callable, batch: arena.BatchArena) -> Iterator[Row]:
        for threads in self._threads:
            before = numba.get_num_threads()
            numba.set_num_threads(threads)
            try:
                alone = batch.matches * best_rate(_replayed(function, batch), RECORDED, self._seconds)
                rate = batch.matches * best_rate(_cpu_turns(function, batch), 1, self._seconds)
            finally:
                numba.set_num_threads(before)
            self._slower[f"{name}, {batch.matches} matches, {count(threads, 'thread')}"] = round(alone / rate, 2)
            yield Row("cpu", batch.matches, threads, f"{name} + step", rate)
            yield Row("cpu", batch.matches, threads, f"step alone, {name}'s play", alone)

    def _cuda_rows(self, name: str, function: Callable, batch: arena.BatchArena) -> Iterator[Row]:
        turns, length = captured(_turn(function, batch))
        yield Row(
            "cuda", batch.matches, None, f"{name} + step", batch.matches * best_rate(turns, length, self._seconds)
        )


def _seats(batch: arena.BatchArena) -> torch.Tensor:
    return torch.arange(batch.matches * rules.SNAKES, dtype=torch.int32, device=batch.device)


def _turn(function: Callable, batch: arena.BatchArena) -> Callable[[], None]:
    moves = torch.zeros(batch.matches, rules.SNAKES, dtype=torch.int8, device=batch.device)
    decide = bind(function, batch, _seats(batch), moves)

    def turn() -> None:
        decide()
        batch.start(batch.play_turn(moves).over)

    return turn


def _cpu_turns(function: Callable, batch: arena.BatchArena) -> Callable[[int], None]:
    turn = _turn(function, batch)

    def turns(count: int) -> None:
        for _ in range(count):
            turn()

    return turns


def _played(function: Callable, matches: int, device: str) -> arena.BatchArena:
    """An arena with matches of this opponent against itself, spread evenly over all turns."""
    batch = arena.BatchArena(matches, device, seed=1)
    batch.start()
    moves = torch.zeros(matches, rules.SNAKES, dtype=torch.int8, device=batch.device)
    act(function, batch, _seats(batch), moves)
    turn = _turn(function, batch)
    slots = torch.arange(matches, device=batch.device) % rules.TURNS
    for number in range(rules.TURNS):
        turn()
        batch.start(slots == number)
    return batch


def _replayed(function: Callable, batch: arena.BatchArena) -> Callable[[int], None]:
    """A call that plays recorded turns again, so that only the step is timed."""
    memory = (batch.state, batch.keys, batch.numbers)
    begin = [tensor.clone() for tensor in memory]
    moves = torch.zeros(batch.matches, rules.SNAKES, dtype=torch.int8)
    decide = bind(function, batch, _seats(batch), moves)
    recorded = []
    for _ in range(RECORDED):
        decide()
        recorded.append(moves.clone())
        batch.start(batch.play_turn(moves).over)

    def turns(count: int) -> None:
        for _ in range(count // RECORDED):
            for tensor, saved in zip(memory, begin, strict=True):
                tensor.copy_(saved)
            for row in recorded:
                batch.start(batch.play_turn(row).over)

    return turns
