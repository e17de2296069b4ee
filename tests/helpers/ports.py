"""Ports for servers that a test starts a little later."""

import random
import socket

# Below the ports that a system gives to outgoing connections (32768 and up on Linux): one of those could be taken by
# any other process between the choice and the start of the server. scripts/slurm.sh takes 20000 to 29999.
PORTS = range(10000, 20000)


def free_ports(count: int) -> list[int]:
    """Different ports of this machine on which nobody listens."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} free ports from {PORTS.start} to {PORTS.stop - 1}")


def free_port() -> int:
    return free_ports(1)[0]
