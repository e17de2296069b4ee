"""How ranks end: exit codes, the error of a lost rank, where the last message goes and its advice, the immediate
exit, and the end with the launcher."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from arena import system
from marl.ranks import environment, rank_log
from opponents.processes import HAS_PRCTL, end_with_parent

EXIT_MISTAKE = 2  # a mistake of the user
EXIT_LOST_RANK = 3  # another rank is dead or hangs
EXIT_TOGETHER = 4  # all ranks ended for the same reason, and rank 0 has printed it

GO_ON = "resume it with --resume and the run's folder"


_pipe: list[int] = []  # file descriptor, see leave_messages_to


class LostRank(RuntimeError):
    """A rank is dead or hangs. The message names the rank and the work that was interrupted."""


def exit_now(message: str, before_exit: Callable[[], None] | None = None) -> NoReturn:
    """Print the message in one line and end this process at once, without `finally` and atexit."""
    notify(message)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if before_exit is not None:
        before_exit()
    os._exit(EXIT_LOST_RANK)


def notify(message: str) -> None:
    """Print the message of a lost rank in one line, or leave it to the launcher."""
    rank_log.write(message)
    line = f"snakes: {message}\n"
    for file in _pipe:
        with contextlib.suppress(OSError):  # the launcher may be gone
            os.write(file, line.encode())
            return
    with contextlib.suppress(Exception):  # the terminal may be gone
        sys.stderr.write(line)  # one write: other ranks write to the same terminal


def leave_messages_to(pipe: int) -> None:
    """For a rank whose launcher reads the messages of its ranks from this pipe, and prints those that say most."""
    _pipe[:] = [pipe]


REPORT_PATIENCE = 10.0  # seconds


def wait_for_first_report() -> None:
    """For an error that every rank of a node finds and the first one reports: the others wait to be ended.

    A launcher ends all ranks as soon as it sees that one has ended, the first one maybe before it has spoken.
    """
    if environment.launch_id() is not None and not environment.is_first_on_node():
        time.sleep(REPORT_PATIENCE)


POLL = 1.0  # seconds, where the system cannot watch the launcher


def end_with_launcher() -> None:
    """Have this process killed as soon as the launcher that started it ends; nothing in a process without a launcher.

    Otherwise ranks would train on, unseen, beside the next start of the run.
    A kill, not a request to save: a launcher only dies before its ranks if it was killed itself. The last checkpoint is
    whole. A rank started by hand, without a launcher, outlives the shell that started it.
    """
    if environment.launch_id() is None:
        return
    if HAS_PRCTL:
        end_with_parent()
        expected = environment.launcher_pid()
        if expected is not None and os.getppid() != expected:  # it ended before this call
            _leave()
    else:
        threading.Thread(target=_watch, args=(os.getppid(),), name="launcher", daemon=True).start()


def _watch(launcher: int) -> None:
    system.wait_for_end_of(launcher, POLL)
    _leave()


def _leave() -> None:
    exit_now("the launcher of this rank is gone, so the rank ends")
