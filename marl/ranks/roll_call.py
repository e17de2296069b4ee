"""Failure detector: names the lost rank after a collective has failed.

A broken collective says little about its cause. Over gloo the neighbours of a killed rank fail at once, while all other
ranks wait for the timeout and look just as silent as the dead rank (seen with 4 ranks). So every rank runs a thread
that answers for it even while its main thread waits in a collective. The first rank that fails calls the roll. A rank
that does not answer is dead or stopped. If all answer, the ranks whose collective has not failed did not take part in
it. All ranks print the same verdict: the first that was stored.

The threads talk through keys of the store; R is the number of the writing rank.

    state      the thread of rank R                              writes            next state when
    ---------  ------------------------------------------------  ----------------  -----------------------------------
    watching   looks for `called` every 0.5 s                    -                 its collective fails, or `called`
    waiting    gives the other ranks time to answer              called, alive/R,  all failed/*, or `verdict`, or
                                                                 failed/R          after PATIENCE
    judging    decides the verdict by alive/* and failed/*       verdict, if none  at once
                                                                 is stored
    releasing  leaves the end to the main thread; the host of    notified/R        the main thread ends the process; or
               the store stays until the living ranks have                         after PATIENCE this thread does
               read the verdict
    stopped    the host of the store waits for all ranks         bye/R             all bye/*, or after 2 s
               (only after a run in good order)

alive/R holds the work of the rank ("update", "save") as JSON. failed/R is written once the collective of rank R itself
has failed. A store that does not answer means that its host is lost.
"""

import atexit
import contextlib
import json
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from marl.cli.wording import named_ranks, verb
from marl.ranks.exits import GO_ON, exit_now

if TYPE_CHECKING:
    import torch.distributed as dist

    from marl.ranks.store import RendezvousStore

PATIENCE = 5.0  # seconds a living rank has to answer: one Numba call may hold the interpreter for a while
POLL = 0.1  # seconds between two looks at the store during a roll call


class Member(Protocol):
    """What is asked of a rank of the process group."""

    rank: int
    world: int
    doing: str


class RollCall(threading.Thread):
    """The thread of one rank; `ask` and `stop` are called by its main thread."""

    def __init__(self, group: Member, rendezvous: "RendezvousStore", store: "dist.Store") -> None:
        super().__init__(name="roll call", daemon=True)
        self._group, self._rendezvous, self._store = group, rendezvous, store
        self._hosts_store = rendezvous.is_hosted_by_rank_0 and group.rank == 0
        self._failed: str | None = None  # the work of the main thread when its collective failed
        self._reason = ""  # torch's error text of that collective
        self._verdict = ""
        self._wake = threading.Event()  # watching ends early
        self._stopped = threading.Event()  # by stop()
        self._judged = threading.Event()  # the verdict is known
        self._released = threading.Event()  # the store is needed no longer
        atexit.register(self.stop)  # a thread inside a call into torch may crash a Python that shuts down
        self.start()

    def ask(self, reason: str) -> str:
        """The verdict, for a main thread whose collective has failed with this reason."""
        self._reason = reason.strip().splitlines()[0][:200] if reason.strip() else "no reason given"
        self._failed = self._group.doing
        self._wake.set()
        # With a limit: the store may be as frozen as the rank that hosts it.
        self._judged.wait(2 * PATIENCE)
        return self._verdict or self._host_lost()

    def wait_for_others(self) -> None:
        """Keep the store alive, if it is this rank's, until the other ranks have read the verdict."""
        if self._hosts_store:
            self._released.wait(2 * PATIENCE)

    def stop(self, in_order: bool = False) -> None:
        """End the thread. in_order: the host of the store waits for the other ranks to stop, or torch complains."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._wake.set()
        if self._failed is not None:
            return
        self.join(PATIENCE)
        with contextlib.suppress(RuntimeError):
            if in_order and not self.is_alive():
                self._say_goodbye()

    def _say_goodbye(self) -> None:
        self._store.set(f"bye/{self._group.rank}", "1")
        deadline = time.monotonic() + 2.0
        everyone = range(self._group.world)
        while self._hosts_store and time.monotonic() < deadline and not self._have_all("bye", everyone):
            time.sleep(0.02)

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._failed is not None or self._store.check(["called"]):
                    self._hold_roll_call()
                    return
                self._wake.wait(0.5)
        except (RuntimeError, OSError):  # the store is gone, and with it the rank that hosts it
            self._verdict = self._verdict or self._host_lost()
        finally:
            self._judged.set()
            self._released.set()

    def _hold_roll_call(self) -> None:
        if not self._hosts_store:
            self._rendezvous.check_server(PATIENCE)  # for a store that is gone torch would print its C++ stack
        failed = self._wait_for_answers()
        alive = self._having("alive")
        verdict = self._judge(alive, failed)
        self._verdict = self._store.compare_set("verdict", "", verdict).decode()  # the first verdict stays
        self._judged.set()
        self._store.set(f"notified/{self._group.rank}", "1")
        self._release(alive)

    def _wait_for_answers(self) -> list[int]:
        """The ranks whose collective has failed."""
        store, rank = self._store, self._group.rank
        store.set("called", "1")
        store.set(f"alive/{rank}", json.dumps(self._group.doing))
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._failed is not None:
                store.set(f"failed/{rank}", "1")
            is_over = time.monotonic() > deadline
            failed = self._having("failed")
            if is_over or len(failed) == self._group.world or store.check(["verdict"]):
                return failed
            time.sleep(POLL)

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
                f"{named_ranks(absent)} of {world} did not come to {what} within {self._rendezvous.timeout:g} s: "
                f"{verb(absent, 'it is', 'they are')} still in {', '.join(busy)}; {GO_ON}"
            )
        return f"all {world} ranks answer, but their connection broke during {what} ({self._reason}); {GO_ON}"

    def _release(self, alive: list[int]) -> None:
        """Leave the end to the main thread if it comes in time; otherwise end the process from this thread."""
        deadline = time.monotonic() + PATIENCE
        # A main thread in a collective with the lost rank may wait for long, with NCCL for ever.
        while self._failed is None and time.monotonic() < deadline and not self._stopped.is_set():
            time.sleep(POLL)
        while self._hosts_store and time.monotonic() < deadline and not self._have_all("notified", alive):
            time.sleep(POLL)
        self._released.set()
        if self._failed is None and not self._stopped.is_set():
            exit_now(self._verdict)

    def _host_lost(self) -> str:
        what = self._failed or self._group.doing
        by_rank = self._rendezvous.is_hosted_by_rank_0
        host = f"rank 0 of {self._group.world}" if by_rank else "the launcher of rank 0"
        why = "killed, out of memory, stopped, or its node is down or cut off"
        return f"{host} stopped answering during {what}: {why}; {GO_ON}"

    def _having(self, key: str) -> list[int]:
        """The ranks that have written this key."""
        return [rank for rank in range(self._group.world) if self._store.check([f"{key}/{rank}"])]

    def _have_all(self, key: str, ranks: Iterable[int]) -> bool:
        return all(self._store.check([f"{key}/{rank}"]) for rank in ranks)
