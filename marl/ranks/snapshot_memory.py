"""Snapshots of a training in memory that outlives its ranks: what `--fault_tolerant` resumes from.

The launcher makes the memory before it forks the ranks, so that all of them have it: two slots per rank, and a page of
counters. It has no name in the file system, so nothing is left of it when the last process ends.

    snapshot number s goes into slot s % 2 of every rank; a rank then writes s into its counter
    the newest whole snapshot is the least of these counters

A replay buffer, a ring of turns, is nearly all of a snapshot; only the turns since snapshot s - 2 are copied.

A rank begins snapshot s + 1 only after a collective that every rank enters after its snapshot s. So the slots of the
newest whole snapshot are never written to, whenever a rank is killed.
"""

import itertools
import math
import mmap
import os
import pickle
import sys
from typing import Any, NamedTuple

import numpy as np
import torch

from marl.errors import UserError

SLOTS = 2
ALIGNED = 64  # bytes
# Counters of the launch. Those of each rank follow: its newest snapshot; where the text of each slot begins and ends.
UPDATES, CYCLES, BEGUN_AT, LOSSES, SAVED_UPDATES = range(5)  # SAVED_UPDATES: one number per slot
COUNTERS = SAVED_UPDATES + SLOTS
PER_RANK = 1 + 2 * SLOTS


class SnapshotMemory:
    """The memory of all ranks of a launch."""

    def __init__(self, world: int) -> None:
        if not hasattr(os, "memfd_create"):
            raise UserError(f"--fault_tolerant needs Linux, this is {sys.platform}; use --max_restarts")
        self._counters = np.frombuffer(mmap.mmap(-1, 8 * (COUNTERS + PER_RANK * world)), np.int64)
        self._ranks = self._counters[COUNTERS:].reshape(world, PER_RANK)
        # By slot and by place in it, what this process has written: the rows of each ring.
        self._rows_in: dict[int, dict[tuple[int, torch.Size], int]] = {}
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
        tensors: list[Ring] = []
        text = pickle.dumps(_without_tensors(value, tensors))
        # The text comes last: its length changes, and rings stay in their places.
        offsets = [0, *itertools.accumulate(_room(ring.tensor) for ring in tensors)]
        size = offsets[-1] + len(text)
        try:
            memory = self._map(rank, slot, size)
        except OSError:  # no memory for it: the snapshot before stays the newest
            return
        with memory:
            there = self._rows_in.get(slot, {})
            self._rows_in[slot] = {}
            for ring, offset in zip(tensors, offsets, strict=False):
                _copy_into(memory, offset, ring, there.get((offset, ring.tensor.shape)))
                if ring.rows is not None:
                    self._rows_in[slot][offset, ring.tensor.shape] = ring.rows
            memory[offsets[-1] : size] = text
        self._ranks[rank, 1 + 2 * slot : 3 + 2 * slot] = offsets[-1], size
        if rank == 0:
            self._counters[SAVED_UPDATES + slot] = updates
        self._ranks[rank, 0] = number

    def read(self, rank: int) -> Any:
        """A rank's part of the newest whole snapshot, with copies of its tensors; of a ring the rows that it had."""
        slot = self.number % SLOTS
        begin, size = map(int, self._ranks[rank, 1 + 2 * slot : 3 + 2 * slot])
        with self._map(rank, slot, size) as memory:
            return _with_tensors(pickle.loads(memory[begin:size]), memory, [0])

    def _map(self, rank: int, slot: int, size: int) -> mmap.mmap:
        file = self._files[rank][slot]
        if os.fstat(file).st_size < size:
            os.posix_fallocate(file, 0, size)  # a write into memory that is not there would end the process
        return mmap.mmap(file, size)


class Ring(NamedTuple):
    """A tensor of which only some rows have changed since an earlier snapshot.

    rows: written up to now, one after the other; row number i lies at i % len(tensor). None: all may have changed.
    """

    tensor: torch.Tensor
    rows: int | None


class _Place(NamedTuple):
    """Stands for a tensor in the text of a snapshot."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    held: int | None  # rows of a ring that have been written


def _room(tensor: torch.Tensor) -> int:
    """Bytes of a tensor, rounded up."""
    return -(-tensor.numel() * tensor.element_size() // ALIGNED) * ALIGNED


def _view(memory: mmap.mmap, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor in the memory. It must be gone when the memory is closed."""
    return torch.frombuffer(memory, dtype=dtype, count=math.prod(shape), offset=offset).view(shape)


def _copy_into(memory: mmap.mmap, offset: int, ring: Ring, rows_there: int | None) -> None:
    """rows_there: rows of the ring that the memory holds already; None for anything else."""
    tensor = ring.tensor
    if not tensor.numel():
        return
    place = _view(memory, offset, tensor.dtype, tuple(tensor.shape))
    if ring.rows is None or rows_there is None or ring.rows - rows_there >= len(tensor):
        place.copy_(tensor)
        return
    begin, end = rows_there % len(tensor), rows_there % len(tensor) + ring.rows - rows_there
    place[begin:end] = tensor[begin:end]
    if end > len(tensor):
        place[: end - len(tensor)] = tensor[: end - len(tensor)]


def _without_tensors(value: Any, tensors: list[Ring]) -> Any:
    """The value with a _Place for each tensor; the tensors are added to the list in the order of their places."""
    if isinstance(value, Ring):
        tensors.append(Ring(value.tensor.detach(), value.rows))
        held = None if value.rows is None else min(value.rows, len(value.tensor))
        return _Place(value.tensor.dtype, tuple(value.tensor.shape), held)
    if isinstance(value, torch.Tensor):
        return _without_tensors(Ring(value, None), tensors)
    if isinstance(value, dict):
        return {key: _without_tensors(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without_tensors(each, tensors) for each in value)
    return value


def _with_tensors(value: Any, memory: mmap.mmap, at: list[int]) -> Any:
    """The way back; `at` holds the place of the next tensor."""
    if isinstance(value, _Place):
        if not math.prod(value.shape):
            return torch.empty(value.shape, dtype=value.dtype)
        tensor = _view(memory, at[0], value.dtype, value.shape)
        at[0] += _room(tensor)
        return (tensor if value.held is None else tensor[: value.held]).clone()
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
