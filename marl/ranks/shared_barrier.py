"""A barrier between the ranks of one machine, in memory that they share.

It has two numbers: how many times a rank has come, and how many rounds are complete. The last rank of a round writes
the second one, and all others look at it alone.

A rank that waits looks for some microseconds, if there is a core for every rank, and then sleeps until the last rank
wakes it (a futex). A rank that has ended never comes, so the others look whether its process lives; a rank that does
not come within the timeout raises, as with gloo.
"""

import ctypes
import mmap
import platform
import time
from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from arena.jit import njit
from marl.compute.machine import usable_cores
from marl.compute.process_identity import started

LINE = 128  # bytes between the two numbers: ranks that look at one do not slow down the writers of the other
STRIDE = LINE // 8
COME, COMPLETE = 0, STRIDE  # places of the numbers
SIZE = 2 * LINE  # bytes of a barrier
SPINS = 10_000  # looks before a rank sleeps, some 50 us
LOOK = 0.1  # seconds between two looks whether the processes of the ranks live
PAUSE = 0.0001  # seconds between two looks on processors without a known futex
FUTEX = {"x86_64": 202, "aarch64": 98}  # numbers of the system call
FUTEX_WAIT, FUTEX_WAKE = 0, 1


@intrinsic
def _load(typingctx, numbers, i):  # type: ignore[no-untyped-def]
    """numbers[i], and nothing that follows is read before it (acquire)."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pointer = _pointer(context, builder, signature, args)
        return builder.load_atomic(pointer, "acquire", 8, typ=ir.IntType(64))

    return types.int64(numbers, types.intp), codegen


@intrinsic
def _store(typingctx, numbers, i, value):  # type: ignore[no-untyped-def]
    """numbers[i] = value, after everything that was written before (release)."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store_atomic(args[2], _pointer(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(numbers, types.intp, types.int64), codegen


@intrinsic
def _count_up(typingctx, numbers, i):  # type: ignore[no-untyped-def]
    """Add 1 to numbers[i] and return what it was, in one step; with the order of `_load` and `_store`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pointer = _pointer(context, builder, signature, args)
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(numbers, types.intp), codegen


def _pointer(context, builder, signature, args):  # type: ignore[no-untyped-def]
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]], source_etype=ir.IntType(64))


@njit
def _come(numbers, rounds, world):
    """Come to a round, counted from 1; returns whether this is the last rank.

    A rank comes to a round only when the one before is complete.
    """
    if _count_up(numbers, COME) + 1 < rounds * world:
        return False
    _store(numbers, COMPLETE, rounds)
    return True


@njit
def _is_complete(numbers, rounds, spins):
    """Whether `rounds` rounds are complete, after `spins` looks at most."""
    while _load(numbers, COMPLETE) < rounds:
        spins -= 1
        if spins < 0:
            return False
    return True


def load_kernels() -> None:
    """Compile the functions above, or read them from the cache."""
    numbers = np.zeros(SIZE // 8, np.int64)
    _come(numbers, 1, 1)
    _is_complete(numbers, 1, 0)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class SharedBarrier:
    """One rank's end of a barrier."""

    def __init__(self, memory: mmap.mmap, offset: int, pids: Sequence[int], timeout: float) -> None:
        """memory: of SIZE zeros at the offset, seen by all ranks. pids: processes of the ranks. timeout: seconds."""
        self._world, self._timeout = len(pids), timeout
        self._processes = [(pid, started(pid)) for pid in pids]
        self._numbers = np.frombuffer(memory, np.int64, SIZE // 8, offset)
        self._complete = self._numbers.ctypes.data + 8 * COMPLETE  # address
        self._rounds = 0
        self._spins = SPINS if self._world <= usable_cores() else 0
        self._futex = FUTEX.get(platform.machine())
        self._call = ctypes.CDLL(None).syscall
        self._call.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
        self._look = _Time(0, int(1e9 * LOOK))

    def wait(self) -> None:
        """Wait until all ranks have called this as often as this one."""
        self._rounds += 1
        if _come(self._numbers, self._rounds, self._world):
            if self._futex is not None:
                self._call(self._futex, self._complete, FUTEX_WAKE, self._world, None)
            return
        if _is_complete(self._numbers, self._rounds, self._spins):
            return
        begin = looked = time.monotonic()
        while not _is_complete(self._numbers, self._rounds, 0):
            self._sleep()
            now = time.monotonic()
            if now - looked > LOOK / 2:
                looked = now
                self._check_processes()
                if now - begin > self._timeout:
                    raise RuntimeError(f"Timed out waiting {self._timeout:g} s for a sum through shared memory")

    def _sleep(self) -> None:
        """Until this round is complete, LOOK at most; not at all if it is."""
        seen = int(self._numbers[COMPLETE])
        if seen >= self._rounds:
            return
        if self._futex is None:
            time.sleep(PAUSE)
            return
        low = ctypes.c_int(seen & 0xFFFFFFFF).value  # the kernel compares 32 bits, and sleeps only if they are equal
        self._call(self._futex, self._complete, FUTEX_WAIT, low, ctypes.addressof(self._look))

    def _check_processes(self) -> None:
        """Raise if a rank has ended and cannot come any more."""
        ended = [rank for rank, (pid, since) in enumerate(self._processes) if started(pid) != since]
        if ended and not _is_complete(self._numbers, self._rounds, 0):
            raise RuntimeError(f"shared memory was left by peer: the process of rank {ended[0]} has ended")
