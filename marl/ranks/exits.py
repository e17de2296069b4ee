"""How ranks end: exit codes, the error of a lost rank, where the last message goes and its advice, and the immediate
exit."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from marl.ranks import rank_log

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
