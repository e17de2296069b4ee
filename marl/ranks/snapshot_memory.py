"""Snapshots of a training in memory that outlives its ranks: what `--fault_tolerant` resumes from.

The launcher makes the memory before it forks the ranks, so that all of them have it: two slots per rank, and a page of
counters. It has no name in the file system, so nothing is left of it when the last process ends.

    snapshot number s goes into slot s % 2 of every rank; a rank then writes s into its counter
    the newest whole snapshot is the least of these counters

A rank begins snapshot s + 1 only after a collective that every rank enters after its snapshot s. So the slots of the
newest whole snapshot are never written to, whenever a rank is killed.
"""

import mmap
import os
import pickle
import sys
from typing import Any

import numpy as np
import torch

from marl.errors import UserError

SLOTS = 2
ALIGNED = 64  # bytes
# Counters of the launch; those of the ranks follow, 1 + SLOTS of each: its newest snapshot, the sizes of its slots.
UPDATES, CYCLES, BEGUN_AT, LOSSES, SAVED_UPDATES = range(5)  # SAVED_UPDATES: one number per slot
COUNTERS = SAVED_UPDATES + SLOTS


class SnapshotMemory:
    """The memory of all ranks of a launch."""

    def __init__(self, world: int) -> None:
        if not hasattr(os, "memfd_create"):
            raise UserError(f"--fault_tolerant needs Linux, this is {sys.platform}; use --max_restarts")
        self._counters = np.frombuffer(mmap.mmap(-1, 8 * (COUNTERS + (1 + SLOTS) * world)), np.int64)
        self._ranks = self._counters[COUNTERS:].reshape(world, 1 + SLOTS)
        self._files = [[os.memfd_create("snakes-snapshot") for _ in range(SLOTS)] for _ in range(world)]

    # --- for the launcher

    def roll_back(self) -> None:
        """After a lost rank: forget all that is newer than the last whole snapshot. No rank may run."""
        self._counters[LOSSES] += 1
        self._ranks[:, 0] = self.number
        self._counters[CYCLES] = 0

    @property
    def updates(self) -> int:
        """Updates that the run has made up to now."""
        return int(self._counters[UPDATES])

    @property
    def begun_at(self) -> int:
        """Updates that the run had made when its present ranks began to train."""
        return int(self._counters[BEGUN_AT])

    @property
    def safe_updates(self) -> int:
        """Updates that a lost rank cannot undo any more."""
        number = self.number
        saved = self._counters[SAVED_UPDATES + number % SLOTS] if number else 0
        return int(max(saved, self._counters[BEGUN_AT]))

    @property
    def has_cycled(self) -> bool:
        """Whether training has made a cycle since the ranks were started."""
        return bool(self._counters[CYCLES])

    # --- for the ranks

    @property
    def losses(self) -> int:
        """Ranks that were lost up to now."""
        return int(self._counters[LOSSES])

    @property
    def number(self) -> int:
        """The number of the newest whole snapshot, from 1 on; 0 without one."""
        return int(self._ranks[:, 0].min())

    def begin(self, updates: int) -> None:
        """Tell the launcher where training begins."""
        self._counters[UPDATES] = self._counters[BEGUN_AT] = updates

    def count_cycle(self, updates: int) -> None:
        """Tell the launcher how far training is."""
        self._counters[UPDATES] = updates
        self._counters[CYCLES] += 1

    def write(self, rank: int, value: Any, updates: int) -> None:
        """Keep a value of nested dictionaries, lists and tensors as this rank's part of the next snapshot.

        Nothing is written while another rank lacks the last one, which it had no memory for.
        """
        number = int(self._ranks[rank, 0]) + 1
        if number != self.number + 1:
            return
        slot = number % SLOTS
        tensors: list[torch.Tensor] = []
        text = pickle.dumps(_without_tensors(value, tensors))
        offsets, size = [], 8 + len(text)
        for tensor in tensors:
            offsets.append(size := -(-size // ALIGNED) * ALIGNED)
            size += tensor.numel() * tensor.element_size()
        try:
            mapped = self._map(rank, slot, size)
        except OSError:  # no memory for it: the snapshot before stays the newest
            return
        with mapped as memory:
            memory[:8] = len(text).to_bytes(8, "little")
            memory[8 : 8 + len(text)] = text
            for tensor, offset in zip(tensors, offsets, strict=True):
                if tensor.numel():
                    place = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
                    place.view(tensor.shape).copy_(tensor)
                    del place  # it holds the memory
        self._ranks[rank, 1 + slot] = size
        if rank == 0:
            self._counters[SAVED_UPDATES + slot] = updates
        self._ranks[rank, 0] = number

    def read(self, rank: int) -> Any:
        """A rank's part of the newest whole snapshot, with copies of its tensors."""
        slot = self.number % SLOTS
        with self._map(rank, slot, int(self._ranks[rank, 1 + slot])) as memory:
            length = int.from_bytes(memory[:8], "little")
            return _with_tensors(pickle.loads(memory[8 : 8 + length]), memory, [8 + length])

    def _map(self, rank: int, slot: int, size: int) -> mmap.mmap:
        file = self._files[rank][slot]
        if os.fstat(file).st_size < size:
            os.posix_fallocate(file, 0, size)  # a write into memory that is not there would end the process
        return mmap.mmap(file, size)


class _Place:
    """Stands for a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype, self.shape = tensor.dtype, tuple(tensor.shape)


def _without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The value with a _Place for each tensor; the tensors are added to the list in the order of their places."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return _Place(value)
    if isinstance(value, dict):
        return {key: _without_tensors(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without_tensors(each, tensors) for each in value)
    return value


def _with_tensors(value: Any, memory: mmap.mmap, at: list[int]) -> Any:
    """The way back; `at` holds the place of the next tensor, before rounding up."""
    if isinstance(value, _Place):
        tensor = torch.empty(value.shape, dtype=value.dtype)
        at[0] = -(-at[0] // ALIGNED) * ALIGNED
        if tensor.numel():
            place = torch.frombuffer(memory, dtype=value.dtype, count=tensor.numel(), offset=at[0])
            tensor.view(-1).copy_(place)
            del place
        at[0] += tensor.numel() * tensor.element_size()
        return tensor
    if isinstance(value, dict):
        return {key: _with_tensors(each, memory, at) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_tensors(each, memory, at) for each in value)
    return value


_inherited: list[SnapshotMemory] = []


def share_with_ranks(memory: SnapshotMemory) -> None:
    """For the launcher: ranks that it forks from now on find this memory."""
    _inherited[:] = [memory]


def inherited() -> SnapshotMemory | None:
    """The memory that the launcher of this rank has made; None without --fault_tolerant."""
    return _inherited[0] if _inherited else None
