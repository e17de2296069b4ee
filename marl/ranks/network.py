"""Ports, addresses and interfaces of this machine, examined with plain sockets.

Plain sockets come before torch: where a port is taken or nobody listens, torch prints its C++ stack.
"""

import contextlib
import ipaddress
import os
import socket
import struct
import sys
import time

from arena import system

ATTEMPT = 5.0  # seconds for one attempt to connect
PAUSE = 0.1  # seconds between two attempts


def bind_error(port: int) -> OSError | None:
    """The error of listening at this port; None if the port is free."""
    with socket.socket() as probe:
        if system.SHARES_BOUND_PORTS:  # as torch does: a port whose last user has just ended is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error
    return None


def check_server(address: str, port: int, timeout: float) -> None:
    """Raise OSError unless a server listens at the address."""
    socket.create_connection((address, port), timeout=timeout).close()


def wait_for_server(address: str, port: int, seconds: float, retry_unknown_host: bool) -> None:
    """Wait until a server listens at the address; the last OSError is raised after `seconds`.

    retry_unknown_host: a name that does not resolve may resolve later; otherwise it is an error at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check_server(address, port, min(ATTEMPT, seconds))
        except OSError as error:
            unknown_host = isinstance(error, socket.gaierror)
            if (unknown_host and not retry_unknown_host) or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)


def is_loopback(address: str) -> bool:
    """Whether an address or name means this machine alone."""
    try:
        found = socket.getaddrinfo(address, None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found)


def listen_at(address: str, port: int) -> socket.socket:
    """A socket that listens at this address alone; torch's own listen at every address of the machine. Port 0: any."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((address, port), family=family)


def stay_on_this_machine() -> None:
    """Bind gloo and NCCL to loopback unless the user has chosen; they would take what the host's name resolves to."""
    loopback = interface_of("127.0.0.1") or ("lo0" if sys.platform == "darwin" else None)
    if loopback is not None:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, loopback)


def own_address(other: str) -> str | None:
    """This machine's address on the route to another machine; None without a route."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))  # a datagram socket: picks the route, sends nothing
            return probe.getsockname()[0]
    except OSError:
        return None


def interface_of(address: str | None) -> str | None:
    """The name of the network interface with this address; None elsewhere than on Linux."""
    if address is None or not system.HAS_LINUX_CALLS:
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                request = struct.pack("256s", name.encode()[:15])
                reply = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
                if socket.inet_ntoa(reply[20:24]) == address:
                    return name
    return None
