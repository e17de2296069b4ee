"""The number of threads with which a training step is fastest on this CPU.

More threads are often slower. On 16 x86 cores DDPG with batches of 1,032 made 37 k env steps/s with 2 threads, 29 k
with 4 and 3.7 k with 16; PPO 72 k with 1, 81 k with 2, 39 k with 4 and 17 k with 16: small matrices do not thread, and
threads that spin take each other's cores.
"""

import time
from collections.abc import Callable, Mapping

import numba
import torch
from numba.np.ufunc import parallel

from marl.compute.overlap import Overlap

MakeStep = Callable[[int], Callable[[], None]]  # rows -> a forward and backward pass with that many rows

UNMEASURED = 2  # up to this many cores one process uses all: 2 threads are two halves of 1 (Overlap), faster than 1
# Fewer threads are chosen if a step takes at most this many times as long as with the fastest number: a step alone
# flatters many threads. On 16 x86 cores PPO was fastest alone with 16, but its run made 39 k env steps/s with them.
ENOUGH = 1.5
SECONDS = 1.0  # of the whole trial, about
REPEATS = 12  # of a step with one number of threads, at most
CPU = torch.device("cpu")


def measure_threads(make_step: MakeStep, rows: int, most: int, overlaps: bool) -> int:
    """The number of threads, up to `most`, with which a step is fastest. overlaps: steps run as two halves at once."""
    numbers = candidates(most)
    deadline = time.perf_counter() + SECONDS
    seconds: dict[int, float] = {}
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        slot = (deadline - time.perf_counter()) / left
        if seconds and slot <= 0:
            break
        seconds[number] = _time_step(make_step, rows, number, overlaps, slot)
    return fewest_of_fastest(seconds)


def candidates(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`, and `most` itself."""
    powers = [2**i for i in range(most.bit_length())]
    return powers if powers[-1] == most else [*powers, most]


def fewest_of_fastest(seconds: Mapping[int, float]) -> int:
    """The fewest threads of all that are about as fast as the fastest. seconds: time of a step by threads."""
    fastest = min(seconds.values())
    return min(number for number, taken in seconds.items() if taken <= ENOUGH * fastest)


def use_threads(number: int, halves: bool = False) -> None:
    """Set the threads of this process: Numba's as far as Numba has them, and torch's; of two halves, those of each.

    Numba's come first. Where both use one OpenMP library (torch for x86), the start of Numba's threads sets those of
    every operation of torch to Numba's number: `--threads 1` then kept all cores busy.
    """
    numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(number // 2 if halves else number)


def limit_threads(number: int) -> None:
    """Set the most threads that torch and Numba can have in a process that was forked before any of them was started.

    Numba reads NUMBA_NUM_THREADS when it is imported and starts that many threads with the first parallel loop.
    """
    torch.set_num_threads(min(torch.get_num_threads(), number))
    numba.config.NUMBA_NUM_THREADS = parallel.NUM_THREADS = min(parallel.NUM_THREADS, number)


def _time_step(make_step: MakeStep, rows: int, threads: int, overlaps: bool, seconds: float) -> float:
    """Seconds of the fastest of a few steps with this many threads, for about `seconds` in all."""
    before = torch.get_num_threads()
    halves = overlaps and threads > 1
    torch.set_num_threads(threads // 2 if halves else threads)
    try:
        overlap = Overlap(halves)
        step = make_step(rows - rows // 2) if overlap.splits else make_step(rows)
        other = make_step(rows // 2) if overlap.splits else None
        end, best = time.perf_counter() + seconds, float("inf")
        for repeat in range(1 + REPEATS):
            begin = time.perf_counter()
            wait = overlap.run(other) if other else None
            step()
            if wait:
                wait()
            now = time.perf_counter()
            if repeat:  # the first one starts the threads
                best = min(best, now - begin)
                if now > end:
                    break
        return best
    finally:
        torch.set_num_threads(before)
