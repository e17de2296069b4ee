"""Ports for servers that a test starts a little later."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

# Below the ports that a system gives to outgoing connections (32768 and up on Linux): one of those could be taken by
# any other process between the choice and the start of the server. scripts/slurm.sh takes 20000 to 29999.
PORTS = range(10000, 20000)
TAKEN = Path(tempfile.gettempdir()) / f"snakes_tests_{os.getuid()}.port"  # the last one; shared by all test processes


def free_ports(count: int) -> list[int]:
    """Different ports of this machine on which nobody listens. Other calls get others: they are taken in turn."""
    ports: list[int] = []
    with open(TAKEN, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        last = int(file.read() or PORTS[-1])
        for turn in range(1, len(PORTS) + 1):
            port = PORTS[(last + turn) % len(PORTS)]  # PORTS begins with a multiple of its length
            if _is_free(port):
                ports.append(port)
            if len(ports) == count:
                file.truncate(0)
                file.write(str(port))
                return ports
    raise RuntimeError(f"fewer than {count} free ports from {PORTS.start} to {PORTS.stop - 1}")


def free_port() -> int:
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
