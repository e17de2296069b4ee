"""Errors of a lost rank: recognise them, name the rank, end this process."""

import re
from typing import NoReturn, Protocol

import torch.distributed as dist

from marl.ranks.exits import LostRank, exit_now
from marl.ranks.roll_call import RollCall
from marl.ranks.sync_check import OutOfSync

# Texts by which torch reports a broken connection: gloo's errors are plain RuntimeErrors.
_CONNECTION_TROUBLE = re.compile(r"gloo|nccl|monitoredBarrier|by peer|Broken pipe|Timed out waiting|wait timeout", re.I)


class Group(Protocol):
    """What is asked of a process group."""

    @property
    def roll_call(self) -> RollCall | None:
        """None without ranks."""


def explain(error: BaseException, group: Group) -> LostRank | None:
    """The lost rank, if `error` was raised because of one; None for any other error.

    For the top level: DDP's own all-reduce fails inside backward() with a plain RuntimeError.
    """
    if isinstance(error, LostRank):
        return error
    if not _is_connection_error(error) or group.roll_call is None:
        return None
    return LostRank(group.roll_call.ask(str(error)))


def _is_connection_error(error: BaseException) -> bool:
    if not isinstance(error, RuntimeError) or isinstance(error, OutOfSync):
        return False
    return isinstance(error, dist.DistError) or _CONNECTION_TROUBLE.search(str(error)) is not None


def leave(error: LostRank, group: Group) -> NoReturn:
    """Print the loss in one line and end this process at once: a group with a lost rank cannot be shut down in order.

    No `finally` and no atexit runs after it: close files before.
    """
    exit_now(str(error), None if group.roll_call is None else group.roll_call.wait_for_others)
