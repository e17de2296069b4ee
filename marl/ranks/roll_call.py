"""Finds out which rank is lost when a collective has failed."""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from marl.ranks.store import Meeting
from marl.wording import named_ranks, verb

if TYPE_CHECKING:
    import torch.distributed as dist

    from marl.ranks.distributed import Ranks

EXIT_LOST_RANK = 3
PATIENCE = 5.0  # seconds a living rank has to answer a roll call: one numba call may hold the interpreter for a while
GO_ON = "go on with --resume and the run's folder"


def end(message: str, roll_call: "RollCall | None") -> NoReturn:
    """Tell it in one line and end this process at once, without `finally` and atexit."""
    sys.stderr.write(f"snakes: {message}\n")  # in one piece: other ranks write to the same terminal
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if roll_call is not None:
        roll_call.wait_for_others()
    os._exit(EXIT_LOST_RANK)


class RollCall(threading.Thread):
    """Finds out which rank is lost, and ends a rank that waits in vain.

    A broken collective says little about who broke it: over gloo a killed rank's neighbours fail at once, while all
    others wait for the timeout and look just as silent as the dead one (seen with 4 ranks). So every rank has this
    thread, which answers for it even while its main thread waits. The first rank to fail calls the roll. Who does not
    answer is dead or stopped; if all answer, who did not fail is not taking part. All ranks report the first verdict.
    """

    def __init__(self, group: "Ranks", where: Meeting, store: "dist.Store") -> None:
        super().__init__(name="roll call", daemon=True)
        self._group, self._where, self._store = group, where, store
        self._hosts = where.is_ours and group.rank == 0
        self._failed: str | None = None  # what the main thread was doing when its collective failed
        self._wake, self._stopped, self._judged, self._released = (threading.Event() for _ in range(4))
        self._verdict = self._reason = ""
        atexit.register(self.stop)  # a thread in the middle of a call into torch may crash a Python that shuts down
        self.start()

    def ask(self, reason: str) -> str:
        """The main thread's collective has failed: who is lost?"""
        self._reason = reason.strip().splitlines()[0][:200] if reason.strip() else "no reason given"
        self._failed = self._group.doing
        self._wake.set()
        # The store may be as frozen as the rank that hosts it, and would keep us waiting.
        self._judged.wait(2 * PATIENCE)
        return self._verdict or self._host_lost()

    def wait_for_others(self) -> None:
        """The host of the store stays until the others have read the verdict there."""
        if self._hosts:
            self._released.wait(2 * PATIENCE)

    def stop(self, in_order: bool = False) -> None:
        """No more calls. In order: the host of the store stays until the others have stopped, or torch complains."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._wake.set()
        if self._failed is not None:
            return
        self.join(PATIENCE)
        with contextlib.suppress(RuntimeError):
            if in_order and not self.is_alive():
                self._store.set(f"bye/{self._group.rank}", "1")
                deadline = time.monotonic() + 2.0
                while self._hosts and time.monotonic() < deadline and not self._all("bye", range(self._group.world)):
                    time.sleep(0.02)

    def _all(self, key: str, ranks: Iterable[int]) -> bool:
        return all(self._store.check([f"{key}/{rank}"]) for rank in ranks)

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._failed is not None or self._store.check(["called"]):
                    self._hold()
                    return
                self._wake.wait(0.5)
        except (RuntimeError, OSError):  # the store is gone, and with it the rank that hosts it
            self._verdict = self._verdict or self._host_lost()
        finally:
            self._judged.set()
            self._released.set()

    def _hold(self) -> None:
        store, rank, everyone = self._store, self._group.rank, range(self._group.world)
        if not self._hosts:
            self._where.probe(PATIENCE)  # torch would print a stack of C++ frames for a store that is gone
        store.set("called", "1")
        store.set(f"alive/{rank}", json.dumps(self._group.doing))
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._failed is not None:
                store.set(f"failed/{rank}", "1")
            over = time.monotonic() > deadline
            failed = [r for r in everyone if store.check([f"failed/{r}"])]
            if over or len(failed) == len(everyone) or store.check(["verdict"]):
                break
            time.sleep(0.1)
        alive = [r for r in everyone if store.check([f"alive/{r}"])]
        self._verdict = store.compare_set("verdict", "", self._judge(alive, failed)).decode()
        self._judged.set()
        store.set(f"told/{rank}", "1")
        # A main thread that waits in a collective with the lost rank may wait for long, with NCCL for ever.
        deadline = time.monotonic() + PATIENCE
        while self._failed is None and time.monotonic() < deadline and not self._stopped.is_set():
            time.sleep(0.1)
        while self._hosts and time.monotonic() < deadline:
            if self._all("told", alive):
                break
            time.sleep(0.1)
        self._released.set()
        if self._failed is None and not self._stopped.is_set():
            end(self._verdict, None)

    def _judge(self, alive: list[int], failed: list[int]) -> str:
        world = self._group.world
        what = self._failed or self._group.doing
        silent = [r for r in range(world) if r not in alive]
        if silent:
            return (
                f"{named_ranks(silent)} of {world} stopped answering during {what}: killed, out of memory, stopped, or "
                f"{verb(silent, 'its node is', 'their nodes are')} down or cut off; {GO_ON}"
            )
        absent = [r for r in alive if r not in failed]
        if absent:
            busy = sorted({json.loads(self._store.get(f"alive/{r}")) for r in absent})
            return (
                f"{named_ranks(absent)} of {world} did not come to {what} within {self._where.timeout:g} s: "
                f"{verb(absent, 'it is', 'they are')} still in {', '.join(busy)}; {GO_ON}"
            )
        return f"all {world} ranks answer, but their connection broke during {what} ({self._reason}); {GO_ON}"

    def _host_lost(self) -> str:
        what = self._failed or self._group.doing
        host = f"rank 0 of {self._group.world}" if self._where.is_ours else "the launcher that hosts the store"
        why = "killed, out of memory, stopped, or its node is down or cut off"
        return f"{host} stopped answering during {what}: {why}; {GO_ON}"
