"""Starts the CPU ranks of a training on this machine from one process that has loaded the program.

The launcher loads the whole program once and forks the ranks from it. A forked rank neither imports nor compiles
anything, and the ranks share the memory of what was loaded.

With `--fault_tolerant` a lost rank costs a second: every half second or so all ranks copy their state into memory that
the launcher holds as well (snapshot_memory.py). When a rank is lost, the launcher ends the others and forks all of them
again; they go on from the last snapshot. A group with a lost rank cannot be repaired in order, and the new rank would
be waited for anyway: in the same time the others begin again.

What would only come again is not repeated: a mistake of the user, a NaN loss, and a rank that is lost `most_losses`
times without a newer snapshot in between.

The launcher must stay a process with one thread: a fork takes along no other. So rank 0 hosts the store of the process
group; the launcher only opens its socket, so that no other process can take the port.
"""

import contextlib
import os
import signal
import socket
import sys
import time
import uuid
from pathlib import Path

from marl.compute.threads import limit_threads
from marl.ranks import snapshot_memory, store
from marl.ranks.exits import EXIT_LOST_RANK, EXIT_MISTAKE, EXIT_TOGETHER, GO_ON, leave_end_to_launcher
from marl.ranks.launch import (
    SHUTDOWN_TIMEOUT,
    STOP_SIGNALS,
    report_failure,
    signal_name,
    stop_on_signal,
)
from marl.ranks.message_pipe import MessagePipe
from marl.ranks.orphans import end_with_launcher
from marl.ranks.snapshot_memory import SnapshotMemory
from marl.wording import count

POLL = 0.01  # seconds between two looks at the ranks
SAME_END = 60.0  # seconds that the other ranks have to end for the same reason; rank 0 may be saving
GRACE = 5.0  # seconds that the launcher has to end a rank that has lost another one
MOST_LOSSES = 3  # of ranks, without a newer snapshot in between


# A mistake, a NaN loss, or a stop signal that somebody has sent to a rank: all ranks end so, by themselves.
FINAL = (EXIT_MISTAKE, EXIT_TOGETHER, 128 + signal.SIGINT, 128 + signal.SIGTERM)


class _Stopped(Exception):
    """The launcher has got a signal."""


class _IsRank(BaseException):
    """This process is no launcher any more, but a rank that it has forked."""


def launch_forked(ranks: int) -> int | None:
    """Fork this many ranks; returns the exit code of the whole.

    Returns None in each of the ranks: the caller trains then. Load the program before, for all of them.
    """
    return _launch(_Launcher(ranks))


def launch_fault_tolerant(ranks: int, most_losses: int = MOST_LOSSES) -> int | None:
    """The same, again after each lost rank."""
    memory = SnapshotMemory(ranks)
    snapshot_memory.share_with_ranks(memory)
    return _launch(_FaultTolerant(ranks, memory, most_losses))


def _launch(launcher: "_Launcher") -> int | None:
    try:
        return launcher.run()
    except _IsRank:
        return None


class _Launcher:
    """Forks the ranks once: a rank that fails ends the run."""

    def __init__(self, ranks: int) -> None:
        self._world = ranks
        self._launch_id = uuid.uuid4().hex
        self._pids: dict[int, int] = {}  # of the ranks that have not ended
        self._codes: dict[int, int] = {}  # exit codes of the others
        self._messages = MessagePipe()
        self._knows_cause = False  # of the end of the ranks, better than they do

    def run(self) -> int:
        """The exit code of the whole; raises _IsRank in each of the ranks."""
        try:
            with stop_on_signal(lambda text, _: _Stopped(text)) as stopped:
                code = None
                while code is None:
                    self._start()
                    failed = self._wait()
                    code = self._succeed() if failed is None else self._fail(failed, self._codes[failed])
                return code
        except _Stopped:
            self._end(SHUTDOWN_TIMEOUT, signal.SIGTERM)
            self._print_messages()
            print(f"snakes: stopped by {signal_name(stopped[0])}", file=sys.stderr)
            return 128 + stopped[0]
        finally:
            self._end(0.0)

    def _succeed(self) -> int:
        """All ranks have ended well; returns the exit code of the whole."""
        return 0

    def _fail(self, rank: int, code: int) -> int | None:
        """A rank has failed; returns the exit code of the whole, or None to fork all ranks again."""
        code_of_all = report_failure(rank, code)
        self._end_after(code, SHUTDOWN_TIMEOUT, signal.SIGTERM)  # rank 0 may be saving
        return code_of_all

    def _end_after(self, code: int, seconds: float, first: int | None = None) -> None:
        """End the other ranks after one has failed with this exit code; see `_end`. Print what they say of it."""
        self._knows_cause = code != EXIT_LOST_RANK
        self._print_messages()
        self._end(seconds, first)
        self._print_messages()

    def _print_messages(self) -> None:
        if not self._knows_cause:
            self._messages.print_messages()

    def _watch(self) -> None:
        """Called while the ranks work."""

    # --- processes

    def _start(self) -> None:
        """Fork all ranks; raises _IsRank in each of them."""
        self._codes.clear()
        self._messages.forget()
        self._knows_cause = False
        with socket.create_server(("127.0.0.1", 0)) as server:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for rank in range(self._world):
                # No signal between the fork and the child's own handlers: it would be taken for the launcher's.
                blocked = {getattr(signal, name) for name in STOP_SIGNALS}
                signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
                pid = os.fork()
                if pid == 0:
                    self._pids.clear()  # they are not the children of this process
                    self._become_rank(rank, server)
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
                    raise _IsRank
                self._pids[rank] = pid
                signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)

    def _become_rank(self, rank: int, server: socket.socket) -> None:
        """Make this process, which has just been forked, a rank. server: for the store of the process group."""
        os.setsid()  # Ctrl-C shall reach the launcher only
        for name in STOP_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(f"rank {rank}")
        os.environ |= {
            "RANK": str(rank), "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self._world), "LOCAL_WORLD_SIZE": str(self._world),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1]),
            "TORCHELASTIC_RUN_ID": self._launch_id,
        }  # fmt: skip
        end_with_launcher()
        self._messages.give_to_rank()
        if rank == 0:
            store.host_at(os.dup(server.fileno()))
        limit_threads(int(os.environ["OMP_NUM_THREADS"]))

    def _wait(self) -> int | None:
        """Wait until a rank has failed, or until all have ended well; the rank that has failed."""
        while self._pids:
            failed = [rank for rank in self._look() if self._codes[rank] != 0]
            # Of several: a rank that was killed is rather the cause than one that has lost another rank. So a second
            # look: the first one may have come to the killed rank before its end, and to the other after it.
            if failed:
                failed += [rank for rank in self._look() if self._codes[rank] != 0]
                return min(failed, key=lambda rank: (self._codes[rank] >= 0, self._codes[rank] == EXIT_LOST_RANK))
            self._watch()
            time.sleep(POLL)
        return None

    def _look(self) -> list[int]:
        """The ranks that have ended since the last look."""
        ended = []
        for rank, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[rank]
                self._codes[rank] = os.waitstatus_to_exitcode(status)
                ended.append(rank)
        return ended

    def _end(self, seconds: float, first: int | None = None) -> None:
        """Wait so long for the ranks to end by themselves, after a first signal if there is one; then kill them."""
        if first is not None:
            self._signal(first)
        deadline = time.monotonic() + seconds
        while self._pids and time.monotonic() < deadline:
            self._look()
            time.sleep(POLL)
        self._signal(signal.SIGKILL)
        while self._pids:
            self._look()
            time.sleep(POLL / 10)

    def _signal(self, number: int) -> None:
        for pid in self._pids.values():
            os.kill(pid, number)


class _FaultTolerant(_Launcher):
    """Forks all ranks again after each lost rank."""

    def __init__(self, ranks: int, memory: SnapshotMemory, most_losses: int) -> None:
        super().__init__(ranks)
        self._memory, self._most_losses = memory, most_losses
        self._losses, self._safe = 0, -1  # in a row; updates at the first of them
        self._lost_at = 0.0  # time of a loss that has not been told yet
        self._loss = ""
        self._reached = 0  # updates before that loss

    def _succeed(self) -> int:
        self._tell("; the run had nothing left to do")
        return 0

    def _fail(self, rank: int, code: int) -> int | None:
        self._end_after(code, SAME_END if code in FINAL else 0.0)
        self._losses = self._losses + 1 if self._memory.safe_updates <= self._safe else 1
        self._safe = max(self._safe, self._memory.safe_updates)
        if code in FINAL or self._losses > self._most_losses:
            return self._give_up(rank, code)
        self._lose(rank, code)
        return None

    def _lose(self, rank: int, code: int) -> None:
        """Note a lost rank; the message follows when training goes on."""
        self._tell(" before training went on")
        how = f"was killed by {signal_name(-code)}" if code < 0 else f"failed with exit code {code}"
        if code == EXIT_LOST_RANK:
            how = "has lost another rank"
        self._loss, self._lost_at = f"rank {rank} {how}", time.monotonic()
        self._reached = self._memory.updates
        self._memory.roll_back()

    def _give_up(self, rank: int, code: int) -> int:
        """Print why the run ends; returns its exit code."""
        self._tell(" before training went on")  # the loss before this one
        if code == EXIT_LOST_RANK:  # its own message says that the launcher goes on
            print(f"snakes: {count(self._losses, 'lost rank')} without progress in between; {GO_ON}", file=sys.stderr)
        return report_failure(rank, code)

    def _watch(self) -> None:
        if self._loss and self._memory.has_cycled:
            begun = self._memory.begun_at
            again = f"{count(max(0, self._reached - begun), 'update')} repeated"
            who = f"{count(self._world, 'rank')} {'go' if self._world > 1 else 'goes'} on"
            self._tell(f"; {who} from update {begun:,} ({again}), {time.monotonic() - self._lost_at:.1f} s")

    def _tell(self, how: str) -> None:
        if self._loss:
            print(f"snakes: {self._loss}{how}", file=sys.stderr, flush=True)
        self._loss = ""

    def _become_rank(self, rank: int, server: socket.socket) -> None:
        super()._become_rank(rank, server)
        leave_end_to_launcher(GRACE)
