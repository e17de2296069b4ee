"""A barrier in shared memory. Threads stand for ranks: what counts is that each has its own SharedBarrier."""

import mmap
import os
import platform
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from marl.ranks import shared_barrier
from marl.ranks.shared_barrier import SIZE, SharedBarrier

ROUNDS = 300
OFFSET = SIZE  # of the barrier in the memory


def make_barriers(ranks: int, timeout: float = 30) -> list[SharedBarrier]:
    memory = mmap.mmap(-1, OFFSET + SIZE)
    return [SharedBarrier(memory, OFFSET, [os.getpid()] * ranks, timeout) for _ in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("spins", [0, 100, 10_000])
def test_nobody_goes_on_before_all_have_come(ranks, spins, monkeypatch):
    monkeypatch.setattr(shared_barrier, "SPINS", spins)
    monkeypatch.setattr(shared_barrier, "usable_cores", lambda: ranks)
    come = [0] * ranks

    def run(rank: int, barrier: SharedBarrier) -> None:
        for done in range(1, ROUNDS + 1):
            come[rank] = done
            barrier.wait()
            assert min(come) >= done, f"rank {rank} left round {done} when the others had come {come} times"
            assert max(come) <= done + 1, f"a rank is two rounds ahead: {come}, round {done}"

    with ThreadPoolExecutor(ranks) as threads:
        for result in [threads.submit(run, *each) for each in enumerate(make_barriers(ranks))]:
            result.result()


def test_processors_without_a_known_futex(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "a new one")
    first, second = make_barriers(2)
    other = threading.Thread(target=lambda: [second.wait() for _ in range(20)])
    other.start()
    for _ in range(20):
        first.wait()
    other.join()


def test_more_ranks_than_cores_do_not_spin(monkeypatch):
    monkeypatch.setattr(shared_barrier, "usable_cores", lambda: 2)
    assert [make_barriers(ranks)[0]._spins > 0 for ranks in (1, 2, 3)] == [True, True, False]


def test_a_rank_that_does_not_come_in_time():
    with pytest.raises(RuntimeError, match=r"^Timed out waiting 0.2 s for a sum through shared memory$"):
        make_barriers(2, timeout=0.2)[0].wait()


def test_a_rank_that_has_ended():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as peer:
        barrier = SharedBarrier(mmap.mmap(-1, SIZE), 0, [os.getpid(), peer.pid], 30)
    with pytest.raises(RuntimeError, match=r"^shared memory was left by peer: the process of rank 1 has ended$"):
        barrier.wait()


def test_a_rank_that_has_come_and_ended_is_not_missed():
    memory = mmap.mmap(-1, SIZE)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as peer:
        pids = [os.getpid(), peer.pid]
        mine, theirs = SharedBarrier(memory, 0, pids, 30), SharedBarrier(memory, 0, pids, 30)
        other = threading.Thread(target=theirs.wait)
        other.start()
        mine.wait()
        other.join()
    mine._check_processes()  # it has ended, but the round was complete
