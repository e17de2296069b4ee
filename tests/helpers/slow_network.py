"""Hosts on this machine (network namespaces) on a network with a given delay and bandwidth, which may change.

Each host has a TUN device; a thread of this process carries the packets between them and delays them. `tc netem` does
the same inside the kernel, but many kernels are built without it.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from helpers import two_hosts
from helpers.forking import Forked

CLONE_NEWNET = 0x40000000  # for setns, which Python has from 3.12 on
TUN = Path("/dev/net/tun")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
HEADERS = 52  # bytes of IPv4 and TCP: they take no time, so that the bandwidth is that of the data


def missing() -> str:
    """Why this machine cannot have such a network; empty if it can."""
    if two_hosts.missing():
        return two_hosts.missing()
    return "" if os.access(TUN, os.R_OK | os.W_OK) else f"{TUN} is missing or cannot be opened"


@contextlib.contextmanager
def slow_network(count: int) -> Iterator["SlowNetwork"]:
    network = SlowNetwork(count)
    try:
        network.start()
        yield network
    finally:
        network.remove()


class SlowNetwork:
    """Fast until delay and bandwidth are set."""

    def __init__(self, count: int) -> None:
        mark = f"slow{os.getpid()}x{random.SystemRandom().randrange(16**4):04x}"
        self._net = f"10.{random.SystemRandom().randrange(64, 192)}.{random.SystemRandom().randrange(256)}"
        self.names = [f"{mark}h{k}" for k in range(count)]
        self.delay = 0.0  # seconds, one way
        self.bandwidth = float("inf")  # bytes per second out of a host
        self._end, self._made = threading.Event(), threading.Event()
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ranks: list[Forked] = []

    def start(self) -> None:
        self._thread.start()
        self._made.wait()
        if self._errors:
            raise self._errors[0]

    def remove(self) -> None:
        for rank in self._ranks:
            rank.kill()
        self._end.set()
        self._thread.join()
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)

    def start_ranks(self, program: Callable[..., int], *words: Any, port: int = 29555) -> list[Forked]:
        """One rank on each host; the program finds torchrun's variables and gets the words."""
        world = str(len(self.names))
        shared = {"WORLD_SIZE": world, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "cable"}
        shared |= {"MASTER_ADDR": self._address(0), "MASTER_PORT": str(port)}
        for number, name in enumerate(self.names):
            environment = dict(os.environ) | shared | {"RANK": str(number)}
            self._ranks.append(Forked(_on_host, name, program, *words, environment=environment))
        return self._ranks

    def _address(self, number: int) -> str:
        return f"{self._net}.{number + 1}"

    # --- in the thread, which goes from host to host

    def _run(self) -> None:
        devices: list[int] = []
        try:
            try:
                for number, name in enumerate(self.names):
                    _ip("netns", "add", name)
                    enter(name)
                    devices.append(_open_device())
                    _ip("address", "add", f"{self._address(number)}/24", "dev", "cable")
                    for link in ("lo", "cable"):
                        _ip("link", "set", link, "up")
                    # Without TCP's slow start: the first packets of a message would wait for each other.
                    route = ("dev", "cable", "src", self._address(number), "initcwnd", "1000", "initrwnd", "1000")
                    _ip("route", "replace", f"{self._net}.0/24", *route)
                    Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle").write_text("0")
            except Exception as error:
                self._errors.append(error)
                return
            finally:
                self._made.set()
            self._carry(devices)
        finally:
            for device in devices:
                os.close(device)

    def _carry(self, devices: list[int]) -> None:
        poll = select.poll()
        for device in devices:
            poll.register(device, select.POLLIN)
        sent = [0.0] * len(devices)  # when the last packet of each host has left it
        under_way: list[tuple[float, int, int, bytes]] = []  # arrival, order, host, packet
        order = 0
        while not self._end.is_set():
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(under_way)
                with contextlib.suppress(OSError):
                    os.write(devices[to], packet)
            wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 0.1
            for device, _ in poll.poll(1e3 * min(wait, 0.1)):
                host = devices.index(device)
                for packet in _packets(device):
                    to = packet[19] - 1  # the last byte of the address
                    if packet[0] >> 4 == 4 and 0 <= to < len(devices):
                        data = max(0, len(packet) - HEADERS)
                        sent[host] = max(sent[host], time.monotonic()) + data / self.bandwidth
                        order += 1
                        heapq.heappush(under_way, (sent[host] + self.delay, order, to, packet))


def _packets(device: int) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        while True:
            yield os.read(device, 65536)


def _open_device() -> int:
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"cable", IFF_TUN | IFF_NO_PI))
    return device


def enter(name: str) -> None:
    """Put this thread, and the processes it starts, into a network namespace."""
    place = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(place, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot go to the network namespace {name}")
    finally:
        os.close(place)


def _on_host(name: str, program: Callable[..., int], *words: Any) -> int:
    enter(name)
    return program(*words)


_ip = two_hosts._ip
