"""Names the system calls that no table of ours knows, on the evaluation's stderr: a package may need one of them.

The kernel tells them to whoever holds the listener of the host's filter, and waits for the answer. That is the process
that watches the host: it is outside, and nothing of the submission reaches it but these numbers.
"""

import errno
import fcntl
import os
import struct
from contextlib import suppress

NOTICE, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")  # the kernel's seccomp_notif and seccomp_notif_resp
RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
MOST = 16  # then the listener is closed, and the kernel answers by itself


class UnknownCalls:
    """Refuses the calls at a listener, and tells each number once."""

    def __init__(self, listener: int, stderr: int) -> None:
        self._listener, self._stderr = listener, stderr
        self._told: set[int] = set()
        self._left = MOST

    def refuse_next(self) -> bool:
        """Answer a call that waits; False after the last one."""
        notice = bytearray(NOTICE.size)
        with suppress(OSError):  # the caller has ended
            fcntl.ioctl(self._listener, RECEIVE, notice, True)
            number, call = NOTICE.unpack(notice)[0], NOTICE.unpack(notice)[3]
            answer = ANSWER.pack(number, 0, -errno.ENOSYS, 0)
            self._tell(call)
            fcntl.ioctl(self._listener, SEND, answer)
        self._left -= 1
        if not self._left:
            os.close(self._listener)
        return self._left > 0

    def _tell(self, call: int) -> None:
        if call not in self._told:
            self._told.add(call)
            line = f"snakes: a submission asked for system call {call} of {os.uname().machine}: unknown, so refused\n"
            os.write(self._stderr, line.encode())
