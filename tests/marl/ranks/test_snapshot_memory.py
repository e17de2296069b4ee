"""Snapshots in memory: what is written is read again, and a snapshot counts once all ranks have it."""

import os

import numpy as np
import torch
from helpers.resumed import assert_equal

from marl.ranks.snapshot_memory import Ring, SnapshotMemory

VALUE = {
    "empty": torch.zeros(0, 3),
    "empty too": torch.zeros(3, 0, dtype=torch.int32),
    "flags": torch.tensor([True, False, True]),
    "list": [torch.arange(5, dtype=torch.int8), None, {"half": torch.full((2, 3), 0.5, dtype=torch.bfloat16)}],
    "number": torch.tensor(3.25, dtype=torch.float64),
    "turned": torch.arange(6).view(2, 3).T,
    "plain": (1, "text", 2.5),
}


def test_a_value_is_read_as_it_was_written() -> None:
    memory = SnapshotMemory(1)
    memory.write(0, VALUE, 7)
    assert_equal(memory.read(0), VALUE)
    memory.write(0, {"more": torch.ones(10_000)}, 8)
    assert_equal(memory.read(0), {"more": torch.ones(10_000)})
    memory.write(0, VALUE, 9)
    assert_equal(memory.read(0), VALUE)


def test_of_a_ring_only_new_rows_are_copied() -> None:
    memory, ring, other = SnapshotMemory(1), torch.zeros(7, 2, dtype=torch.int64), torch.zeros(3)
    written = 0
    for step in (0, 3, 0, 2, 1, 4, 5, 7, 20, 6, 3):
        for row in range(written, written + step):
            ring[row % 7] = row + 1
        written += step
        other += 1
        memory.write(0, {"a": other, "ring": Ring(ring, written), "text": "x" * step}, written)
        found = memory.read(0)
        assert_equal(found, {"a": other, "ring": ring[: min(written, 7)], "text": "x" * step})
    ring[written % 7] = -1  # a row that is not new is not looked at
    memory.write(0, {"a": other, "ring": Ring(ring, written), "text": ""}, written)
    memory.write(0, {"a": other, "ring": Ring(ring, written), "text": ""}, written)
    assert -1 not in memory.read(0)["ring"]


def test_a_snapshot_counts_once_all_ranks_have_it() -> None:
    memory = SnapshotMemory(2)
    assert memory.number == 0
    for rank in (1, 0):
        memory.write(rank, f"first of {rank}", 10)
    memory.write(1, "second of 1", 20)
    for _ in range(3):
        memory.write(1, "too early", 30)  # rank 0 is still without the second one
        assert (memory.number, memory.safe_updates) == (1, 10)
        assert [memory.read(rank) for rank in (0, 1)] == ["first of 0", "first of 1"]
    memory.roll_back()
    for rank in (0, 1):
        memory.write(rank, f"second of {rank}, again", 20)
    assert (memory.number, memory.safe_updates) == (2, 20)
    assert [memory.read(rank) for rank in (0, 1)] == ["second of 0, again", "second of 1, again"]


def test_a_forked_process_writes_into_the_same_memory() -> None:
    memory = SnapshotMemory(1)
    child = os.fork()
    if child == 0:
        memory.begin(3)
        memory.count_cycle(5)
        memory.write(0, {"tensor": torch.from_numpy(np.arange(3))}, 5)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert_equal(memory.read(0), {"tensor": torch.arange(3)})
    assert (memory.begun_at, memory.updates, memory.has_cycled) == (3, 5, True)
    memory.roll_back()
    assert not memory.has_cycled


def test_a_rank_without_memory_keeps_the_last_snapshot(monkeypatch) -> None:
    memory = SnapshotMemory(1)
    memory.write(0, "small", 1)
    memory.write(0, "small too", 2)

    def refuse(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    memory.write(0, {"large": torch.zeros(100_000)}, 3)
    assert (memory.number, memory.read(0)) == (2, "small too")
