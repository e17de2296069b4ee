"""Starts the CPU ranks of a training on this machine from one process that has loaded the program.

The launcher loads the whole program once and forks the ranks from it. A forked rank neither imports nor compiles
anything, and the ranks share the memory of what was loaded.

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

from marl.cli.wording import count
from marl.compute.threads import limit_threads
from marl.ranks import store
from marl.ranks.exits import EXIT_LOST_RANK, GO_ON, end_with_launcher, leave_messages_to
from marl.ranks.launch import (
    SHUTDOWN_TIMEOUT,
    STOP_SIGNALS,
    report_failure,
    signal_name,
    stop_on_signal,
)

POLL = 0.01  # seconds between two looks at the ranks


class _Stopped(Exception):
    """The launcher has got a signal."""


class _IsRank(BaseException):
    """This process is no launcher any more, but a rank that it has forked."""


def launch_forked(ranks: int, timeout: float) -> int | None:
    """Fork this many ranks; returns the exit code of the whole. timeout: seconds to wait for ranks that save after a
    signal.

    Returns None in each of the ranks: the caller trains then. Load the program before, for all of them.
    """
    try:
        return _Launcher(ranks, max(SHUTDOWN_TIMEOUT, timeout)).run()
    except _IsRank:
        return None


class _Launcher:
    """Forks the ranks once: a rank that fails ends the run."""

    def __init__(self, ranks: int, patience: float) -> None:
        """patience: seconds that the ranks have to end after a signal."""
        self._world, self._patience = ranks, patience
        self._launch_id = uuid.uuid4().hex
        self._pids: dict[int, int] = {}  # of the ranks that have not ended
        self._codes: dict[int, int] = {}  # exit codes of the others
        self._messages = MessagePipe()
        self._knows_cause = False  # of the end of the ranks, better than they do

    def run(self) -> int:
        """The exit code of the whole; raises _IsRank in each of the ranks."""
        try:
            with stop_on_signal(lambda text, _: _Stopped(text)) as stopped:
                self._start()
                failed = self._wait()
                return 0 if failed is None else self._fail(failed, self._codes[failed])
        except _Stopped:
            killed = self._end(self._patience, signal.SIGTERM)
            self._print_messages()
            if killed:
                late = f"{count(killed, 'rank')} had not saved {self._patience:g} s after the signal (--timeout)"
                print(f"snakes: {late} and had to be killed; {GO_ON}", file=sys.stderr)
            print(f"snakes: stopped by {signal_name(stopped[0])}", file=sys.stderr)
            return 128 + stopped[0]
        finally:
            self._end(0.0)

    def _fail(self, rank: int, code: int) -> int:
        """A rank has failed: end the others, print what they say of it; returns the exit code of the whole."""
        code_of_all = report_failure(rank, code)
        self._knows_cause = code != EXIT_LOST_RANK
        self._print_messages()
        self._end(self._patience, signal.SIGTERM)  # rank 0 may be saving
        self._print_messages()
        return code_of_all

    def _print_messages(self) -> None:
        if not self._knows_cause:
            self._messages.print_messages()

    # --- processes

    def _start(self) -> None:
        """Fork all ranks; raises _IsRank in each of them."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for rank in range(self._world):
                # No signal between the fork and the child's own handlers: it would be taken for the launcher's.
                signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
                pid = os.fork()
                if pid == 0:
                    self._pids.clear()  # they are not the children of this process
                    self._become_rank(rank, server)
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
                    raise _IsRank
                self._pids[rank] = pid
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _become_rank(self, rank: int, server: socket.socket) -> None:
        """Make this process, which has just been forked, a rank. server: for the store of the process group."""
        os.setsid()  # Ctrl-C shall reach the launcher only
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(f"rank {rank}", "ascii")
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

    def _end(self, seconds: float, first: int | None = None) -> int:
        """Wait up to `seconds` for the end of the ranks, after a first signal if there is one; then kill them.

        Returns how many had to be killed.
        """
        if first is not None:
            self._signal(first)
        deadline = time.monotonic() + seconds
        while self._pids and time.monotonic() < deadline:
            self._look()
            time.sleep(POLL)
        left = len(self._pids)
        self._signal(signal.SIGKILL)
        while self._pids:
            self._look()
            time.sleep(POLL / 10)
        return left

    def _signal(self, number: int) -> None:
        for pid in self._pids.values():
            os.kill(pid, number)


class MessagePipe:
    """The last messages of the ranks: the launcher prints them, unless it knows the cause better itself.

    A rank that was killed is seen by its launcher, with the signal, and by all other ranks, which can only tell that it
    does not answer. One of these messages is enough. Made before the fork, one for all ranks. A rank writes its message
    before it ends, so that none comes late.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._printed: set[str] = set()

    def give_to_rank(self) -> None:
        """Called in the rank: its last messages go into the pipe."""
        os.close(self._reading)
        leave_messages_to(self._writing)

    def print_messages(self) -> None:
        """Print what the ranks have written since the last call, equal messages of several ranks once."""
        for line in self._read():
            if line not in self._printed:
                print(line, file=sys.stderr, flush=True)
            self._printed.add(line)

    def _read(self) -> list[str]:
        written = b""
        try:
            while part := os.read(self._reading, 1 << 16):
                written += part
        except BlockingIOError:  # it is empty
            pass
        return written.decode().splitlines()
