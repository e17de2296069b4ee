"""The arena's speed: match-turns per second by device, batch size, threads, and what is asked for."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import torch

import arena
from arena import rules
from arena.backends.loops import PARALLEL_FROM
from arena.encoders import ENCODERS
from marl.bench.timing import Row, best_rate
from marl.errors import UserError

GRAPH_TURNS = 20
PREPARED = 16  # sets of random moves drawn before the clock starts
CPU_MATCHES = (1, 64, 1024, 16384)
CUDA_MATCHES = (16384, 65536, 131072, 262144)


class ArenaBench:
    """The rows of `bench arena`, measured one by one as they are asked for."""

    def __init__(
        self, device: str | None, matches: list[int] | None, threads: list[int] | None, seconds: float
    ) -> None:
        self._devices, self._threads = checked_devices(device, threads or [1, numba.config.NUMBA_NUM_THREADS])
        self._matches = matches
        self._seconds = seconds
        self._first_calls: dict[str, float] = {}

    def facts(self) -> dict[str, Any]:
        """What is not a rate. A first call loads the compiled rules; the very first on a machine compiles them."""
        return {"state_bytes_per_match": rules.MATCH_BYTES, "first_call_seconds": self._first_calls}

    def rows(self) -> Iterator[Row]:
        for device in self._devices:
            self._first_calls[device] = _first_call(device)
            if device == "cpu":
                yield from self._cpu_rows()
            else:
                yield from self._cuda_rows()

    def _cpu_rows(self) -> Iterator[Row]:
        for matches in self._matches or CPU_MATCHES:
            batch = _staggered(matches, "cpu")
            # Smaller batches stay on one core whatever is allowed.
            for threads in self._threads if matches >= PARALLEL_FROM else (1,):
                before = numba.get_num_threads()
                numba.set_num_threads(threads)
                try:
                    for encoder in (None, *ENCODERS):
                        rate = matches * best_rate(_cpu_turns(batch, encoder), 1, self._seconds)
                        yield Row("cpu", matches, threads, f"step + {encoder}" if encoder else "step", rate)
                finally:
                    numba.set_num_threads(before)
        try:
            turns = _pettingzoo_turns()
        except ImportError as error:
            print(f"snakes: no PettingZoo row: {error}", file=sys.stderr)
            return
        yield Row("cpu", 1, 1, "PettingZoo parallel step", best_rate(turns, 1, self._seconds))

    def _cuda_rows(self) -> Iterator[Row]:
        for matches in self._matches or CUDA_MATCHES:
            batch = _staggered(matches, "cuda")
            for what in ("step", "random + step", *(f"random + step + {encoder}" for encoder in ENCODERS)):
                encoder = what.rpartition(" + ")[2]
                width = ENCODERS[encoder].width if encoder in ENCODERS else 0
                if matches * rules.SNAKES * width > torch.cuda.mem_get_info()[0] // 2:
                    continue  # does not fit on this GPU
                turns = _graph_turns(batch, what.startswith("random"), encoder if width else None)
                rate = matches * best_rate(turns, GRAPH_TURNS, self._seconds)
                yield Row("cuda", matches, None, what, rate)


def checked_devices(device: str | None, threads: list[int]) -> tuple[list[str], list[int]]:
    """The devices to measure on and the numbers of threads, or a UserError."""
    most = numba.config.NUMBA_NUM_THREADS
    if max(threads) > most:
        raise UserError(f"threads is {max(threads)}; this machine has 1 to {most}")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but torch sees no CUDA device")
    return [device] if device else ["cpu"] + ["cuda"] * torch.cuda.is_available(), sorted(set(threads))


def _first_call(device: str) -> float:
    begin = time.perf_counter()
    batch = arena.BatchArena(64, device)
    batch.start()
    batch.play_turn(torch.zeros(64, rules.SNAKES, dtype=torch.int8, device=device))
    for encoder in ENCODERS:
        batch.observe(encoder)
    batch.check()
    return round(time.perf_counter() - begin, 3)


def _staggered(matches: int, device: str) -> arena.BatchArena:
    """An arena whose matches stand at all turns alike, so that every window holds its share of new starts."""
    batch = arena.BatchArena(matches, device, seed=1)
    batch.start()
    moves = _random_moves(matches, device)
    slots = torch.arange(matches, device=device) % rules.TURNS
    for turn in range(rules.TURNS):
        batch.play_turn(moves[turn % PREPARED])
        batch.start(slots == turn)
    return batch


def _random_moves(matches: int, device: str) -> list[torch.Tensor]:
    generator = torch.Generator(device).manual_seed(1)
    shape = (matches, rules.SNAKES)
    return [torch.randint(4, shape, dtype=torch.int8, device=device, generator=generator) for _ in range(PREPARED)]


def _row_buffer(batch: arena.BatchArena, encoder: str) -> torch.Tensor:
    return batch.observe(encoder)  # of the right size and type; written over from now on


def _cpu_turns(batch: arena.BatchArena, encoder: str | None) -> Callable[[int], None]:
    moves = itertools.cycle(_random_moves(batch.matches, "cpu"))
    out = _row_buffer(batch, encoder) if encoder else None

    def turns(count: int) -> None:
        for _ in range(count):
            batch.start(batch.play_turn(next(moves)).over)
            if encoder:
                batch.observe(encoder, out=out)

    return turns


def _graph_turns(batch: arena.BatchArena, random: bool, encoder: str | None) -> Callable[[int], None]:
    moves = _random_moves(batch.matches, "cuda")[0]
    out = _row_buffer(batch, encoder) if encoder else None

    def turn() -> None:
        if random:
            moves.random_(0, 4)
        batch.start(batch.play_turn(moves).over)
        if encoder:
            batch.observe(encoder, out=out)

    return captured(turn)[0]


def captured(turn: Callable[[], None]) -> tuple[Callable[[int], None], int]:
    """A turn on the GPU as a graph of several: a call that plays a multiple of them, and how many it holds."""
    side = torch.cuda.Stream()  # a graph can only be recorded of kernels that are already compiled and loaded
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        turn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_TURNS):
            turn()

    def turns(count: int) -> None:
        for _ in range(count // GRAPH_TURNS):
            graph.replay()
        torch.cuda.synchronize()

    return turns, GRAPH_TURNS


def _pettingzoo_turns() -> Callable[[int], None]:
    environment = arena.parallel_env(observation="features")
    environment.reset(seed=1)
    names = environment.possible_agents
    moves = itertools.cycle([dict(zip(names, row, strict=True)) for row in _random_moves(256, "cpu")[0].tolist()])

    def turns(count: int) -> None:
        for _ in range(count):
            environment.step(next(moves))
            if not environment.agents:
                environment.reset()

    return turns
