"""Sums over the ranks of one machine through shared memory.

gloo sends 4 (N - 1) messages through the loopback interface for one sum of N ranks, which is most of an update when
ranks have little to compute. Here a sum is two barriers:

    1. every rank writes its numbers into a slot of its own; a barrier;
    2. rank r adds part r of all slots and writes the sum; a barrier;
    3. every rank reads the sum.

A sum of a few floats is one barrier: every rank adds up all slots itself.

Slots are used in turn, even and odd sums: a rank that writes an even one has met all ranks since the last even one was
read. The order of the additions depends on the number of ranks alone, and all ranks read the same sum.
"""

import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from arena import system
from arena.jit import njit
from marl.compute.process_identity import boot_id, pid_namespace
from marl.ranks import shared_barrier
from marl.ranks.shared_barrier import SharedBarrier

SLOT = 1 << 19  # bytes; a larger tensor is summed in pieces
SMALL_BYTES = 1 << 10  # of floats that every rank sums alone
HEADER = 2 * shared_barrier.SIZE  # bytes before the slots


@njit
def _write(numbers, slot):
    for i in range(numbers.shape[0]):
        slot[i] = numbers[i]


@njit
def _add_part(slots, begin, end, divisor, work):
    """Numbers begin to end of the sum of all slots but the last, divided, into the last one; in the order of _sum_of.

    work [half of the ranks, numbers]: overwritten. Sums in the slots themselves would take their memory from the cache
    of the core that writes there next.
    """
    world, size = slots.shape[0] - 1, end - begin
    total = work[0, :size]
    if world & (world - 1) == 0:
        for pair in range(world // 2):
            _add(slots[2 * pair, begin:end], slots[2 * pair + 1, begin:end], work[pair, :size])
        step = 1
        while step < world // 2:
            for pair in range(0, world // 2, 2 * step):
                _add(work[pair, :size], work[pair + step, :size], work[pair, :size])
            step *= 2
    else:
        _add(slots[0, begin:end], slots[1, begin:end], total)
        for rank in range(2, world):
            _add(total, slots[rank, begin:end], total)
    for i in range(size):
        slots[world, begin + i] = total[i] / divisor


@njit
def _add_all(slots, parts, divisor, sums):
    """The sums of all slots but the last, divided; in the order of _sum_of. parts [ranks]: overwritten."""
    world = parts.shape[0]
    for i in range(sums.shape[0]):
        for rank in range(world):
            parts[rank] = slots[rank, i]
        if world & (world - 1) == 0:
            step = 1
            while step < world:
                for rank in range(0, world, 2 * step):
                    parts[rank] += parts[rank + step]
                step *= 2
        else:
            for rank in range(1, world):
                parts[0] += parts[rank]
        sums[i] = parts[0] / divisor


@njit
def _add(numbers, more, sums):
    for i in range(numbers.shape[0]):
        sums[i] = numbers[i] + more[i]


def load_kernels() -> None:
    """Compile the functions above, or read them from the cache."""
    for kind in (np.float32, np.float64):
        slots = np.zeros((2, 1), kind)
        _write(slots[0], slots[1])
        _add_all(slots, slots[0], kind(1), slots[1])
    slots = np.zeros((3, 1), np.float32)
    _add_part(slots, 0, 1, np.float32(1), slots)
    shared_barrier.load_kernels()


class SharedMemory:
    """The memory that all ranks see."""

    def __init__(self, memory: mmap.mmap, rank: int, world: int, pids: list[int], timeout: float) -> None:
        self._rank, self._world = rank, world
        offsets = range(0, HEADER, shared_barrier.SIZE)
        self._written, self._added = (SharedBarrier(memory, offset, pids, timeout) for offset in offsets)
        data = torch.frombuffer(memory, dtype=torch.uint8, offset=HEADER)
        self._slots = data.view(2, world + 1, SLOT)  # even and odd sums; of every rank, and for the result
        self._floats = self._slots.view(torch.float32).numpy()
        self._work = np.zeros((max(1, world // 2), SLOT // 4 // world + 1), np.float32)
        # By type: slots, and one number of every rank.
        self._small: dict[torch.dtype, tuple[np.ndarray, np.ndarray]] = {
            dtype: (self._slots.view(dtype).numpy(), torch.zeros(world, dtype=dtype).numpy())
            for dtype in (torch.float32, torch.float64)
        }
        self._count = 0  # sums that were begun

    @staticmethod
    def size(world: int) -> int:
        """Bytes for this number of ranks."""
        return HEADER + 2 * (world + 1) * SLOT

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of a contiguous tensor over the ranks, in place. A collective."""
        self._sum(tensor, 1)
        return tensor

    def mean_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The mean of a contiguous tensor of floats over the ranks, in place. A collective."""
        if tensor.dtype != torch.float32:
            return self.sum_(tensor).div_(self._world)
        self._sum(tensor, self._world)  # every rank divides its part
        return tensor

    def _sum(self, tensor: torch.Tensor, divisor: int) -> None:
        """divisor: 1 for other types than float32."""
        step = SLOT // tensor.element_size()
        if tensor.dtype in self._small and tensor.nbytes <= SMALL_BYTES:
            self._sum_few(tensor.numpy().reshape(-1), *self._small[tensor.dtype], divisor)
        elif tensor.dtype == torch.float32:  # gradients: torch's methods would take longer than the work
            numbers = tensor.numpy().reshape(-1)
            for begin in range(0, len(numbers), step):
                self._sum_floats(numbers[begin : begin + step], np.float32(divisor))
        else:
            for piece in tensor.view(-1).split(step):
                self._sum_others(piece)

    def _sum_few(self, numbers: np.ndarray, slots: np.ndarray, parts: np.ndarray, divisor: int) -> None:
        self._count += 1
        slots = slots[self._count % 2]
        _write(numbers, slots[self._rank])
        self._written.wait()
        _add_all(slots, parts, parts.dtype.type(divisor), numbers)

    def _sum_floats(self, numbers: np.ndarray, divisor: np.float32) -> None:
        self._count += 1
        slots = self._floats[self._count % 2]
        _write(numbers, slots[self._rank])
        self._written.wait()
        begin, end = self._part_of(len(numbers))
        _add_part(slots, begin, end, divisor, self._work)
        self._added.wait()
        _write(slots[-1, : len(numbers)], numbers)

    def _sum_others(self, piece: torch.Tensor) -> None:
        self._count += 1
        slots = self._slots[self._count % 2, :, : piece.nbytes].view(piece.dtype)
        slots[self._rank] = piece
        self._written.wait()
        begin, end = self._part_of(len(piece))
        if end > begin:
            slots[-1, begin:end] = _sum_of(slots[:-1, begin:end])
        self._added.wait()
        piece.copy_(slots[-1])

    def _part_of(self, size: int) -> tuple[int, int]:
        """Begin and end of the numbers that this rank adds up."""
        return size * self._rank // self._world, size * (self._rank + 1) // self._world


def join(rank: int, world: int, timeout: float, gather: Callable[[Any], list[Any]]) -> SharedMemory | None:
    """The shared memory of these ranks; None if they are on several machines, or if the machine gives none.

    gather: the values of all ranks, on every rank. A collective.
    """
    places = gather(_place())
    pids = gather(os.getpid())
    if None in places or len(set(places)) > 1 or len(set(pids)) < world:
        return None
    file = _create(SharedMemory.size(world)) if rank == 0 else None
    path = gather(None if file is None else f"/proc/{os.getpid()}/fd/{file}")[0]
    memory = None if path is None else _map(path)
    load_kernels()
    ready = gather(memory is not None)
    if file is not None:
        os.close(file)  # the memory lives as long as a rank has it mapped
    return SharedMemory(memory, rank, world, pids, timeout) if memory is not None and all(ready) else None


def _sum_of(parts: torch.Tensor) -> torch.Tensor:
    """The sum over the first dimension, in an order that depends on its size alone: for a power of two as a tree."""
    if len(parts) & (len(parts) - 1) == 0:
        while len(parts) > 1:
            parts = parts[::2] + parts[1::2]
        return parts[0]
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def _place() -> tuple | None:
    """What ranks on one machine have in common: the running system, its processes, its network."""
    try:
        return boot_id(), pid_namespace(), os.readlink("/proc/self/ns/net")
    except OSError:
        return None


def _create(size: int) -> int | None:
    """A file in memory without a name: nothing is left of it, whenever its processes are killed."""
    if not system.SHARES_MEMORY:
        return None
    file = None
    try:
        file = os.memfd_create("snakes-sums")
        os.posix_fallocate(file, 0, size)  # a write into memory that is not there would end the process
        return file
    except OSError:
        if file is not None:
            os.close(file)
        return None


def _map(path: str) -> mmap.mmap | None:
    try:
        file = os.open(path, os.O_RDWR)
        try:
            return mmap.mmap(file, 0)
        finally:
            os.close(file)
    except OSError:
        return None
