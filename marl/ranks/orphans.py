"""Ranks end when their launcher is gone: otherwise they would train on, unseen, beside the next start of the run."""

import os
import threading

from arena import system
from marl.ranks import environment
from marl.ranks.exits import exit_now
from opponents.processes import HAS_PRCTL, end_with_parent

POLL = 1.0  # seconds, where the system cannot watch the launcher


def end_with_launcher() -> None:
    """Have this process killed as soon as the launcher that started it ends; nothing in a process without a launcher.

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
