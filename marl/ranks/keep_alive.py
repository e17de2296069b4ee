"""Long work of unequal length on the ranks of a group, without the time limit of a collective.

While the main thread works, a thread on every rank meets those of the other ranks in small collectives, until the work
of all ranks is done. So the time limit holds for each meeting, not for the work: a rank that is dead or stopped misses
a meeting and is named within the limit, a rank that works is waited for.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

from marl.ranks import roll_call
from marl.ranks.exits import LostRank

Meet = Callable[[int], int]  # a collective: the sum of the numbers of all ranks; LostRank if a rank does not come


class _Meetings(threading.Thread):
    """Meets the other ranks until all of them are done."""

    def __init__(self, meet: Meet, world: int, interval: float, leave: Callable[[LostRank], None]) -> None:
        super().__init__(name="keep alive", daemon=True)
        self._meet, self._world, self._interval, self._leave = meet, world, interval, leave
        self.done = threading.Event()  # the main thread has finished its work
        self.given_up = False  # the main thread has failed: come to no more meetings
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            finished = 0
            while finished < self._world and not self.given_up:
                self.done.wait(self._interval)
                finished = self._meet(int(self.done.is_set() and not self.given_up))
        except BaseException as error:
            self.error = error
            # The main thread may be busy for long, and a group with a lost rank is at its end.
            if isinstance(error, LostRank) and not self.done.wait(roll_call.PATIENCE):
                self._leave(error)


@contextlib.contextmanager
def meetings(meet: Meet, world: int, interval: float, leave: Callable[[LostRank], None]) -> Iterator[None]:
    """Do the work of the block; the block ends when the work of all ranks is done.

    No other collective of the group of `meet` may run meanwhile. `leave` ends this process: it is called if a rank is
    lost and the work of the block does not end soon.
    """
    thread = _Meetings(meet, world, interval, leave)
    thread.start()
    try:
        yield
    except BaseException:
        thread.given_up = True
        thread.done.set()
        thread.join(2 * interval)  # so that a collective does not run while the group is closed
        raise
    thread.done.set()
    thread.join()
    if thread.error is not None:
        raise thread.error
