"""A pipe for the last messages of forked ranks: the launcher prints them, unless it knows the cause better itself.

A rank that was killed is seen by its launcher, with the signal, and by all other ranks, which can only tell that it
does not answer. One of these messages is enough.
"""

import os
import sys

from marl.ranks.exits import leave_messages_to


class MessagePipe:
    """Made before the fork, one for all ranks. A rank writes its message before it ends, so that none comes late."""

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
