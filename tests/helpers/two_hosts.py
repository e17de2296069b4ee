"""Two hosts on this machine: two network namespaces with a cable between them. The cable can be cut.

The hosts share the file system and the host name. The name resolves to loopback on both, as on many real hosts.
"""

import contextlib
import ctypes
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from helpers.forking import Forked, snakes
from helpers.processes import wait_until

CLONE_NEWNET = 0x40000000  # for setns, which Python has from 3.12 on
LIMIT = 300.0  # seconds for one command on a host


@functools.cache
def missing() -> str:
    """Why this machine cannot have two hosts; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip", path=_path()) is None:
        return "the command `ip` is not installed: apt-get install iproute2"
    try:
        with two_hosts(Path()) as hosts:
            _ip("netns", "exec", hosts[0].name, "true")
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed here: {error.stderr.strip()}"
    return ""


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator["Hosts"]:
    """Commands on the hosts write their output to files in the folder."""
    hosts = Hosts(folder)
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.remove()


class Hosts:
    """hosts[0] and hosts[1], and the cable between them."""

    def __init__(self, folder: Path) -> None:
        mark = f"snakes{os.getpid()}x{random.SystemRandom().randrange(16**4):04x}"
        net = f"10.{random.SystemRandom().randrange(64, 192)}.{random.SystemRandom().randrange(256)}"
        self._hosts = [Host(f"{mark}h{k}", f"{net}.{k + 1}", folder) for k in (0, 1)]

    def __getitem__(self, number: int) -> "Host":
        return self._hosts[number]

    def make(self) -> None:
        for host in self._hosts:
            _ip("netns", "add", host.name)
        one, other = (host.name for host in self._hosts)
        _ip("-n", one, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", other)
        for host in self._hosts:
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", host.name, "link", "set", link, "up")

    def remove(self) -> None:
        """End the remaining processes, by their ids, and remove the hosts."""
        for end in (signal.SIGTERM, signal.SIGKILL):  # a launcher ends its ranks
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, end)
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: not self.processes(), 20, "all processes have ended")
                break
        for host in self._hosts:
            with contextlib.suppress(subprocess.CalledProcessError):  # if make() failed before this host
                _ip("netns", "delete", host.name)  # this removes both ends of the cable too

    def cut(self) -> None:
        _ip("-n", self[1].name, "link", "set", "cable", "down")

    def heal(self) -> None:
        _ip("-n", self[1].name, "link", "set", "cable", "up")

    def processes(self) -> list[int]:
        return [int(pid) for host in self._hosts for pid in _ip("netns", "pids", host.name).split()]


class Host:
    """A network namespace."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address, self._folder = name, address, folder
        self._started = 0

    def start(self, *words: str | Path, **environment: str) -> "Running":
        """Run `snakes` with these words."""
        strange = re.compile("SLURM|RANK$|WORLD_SIZE$|MASTER_|NPROC$|NNODES$|NODE_RANK$|SOCKET_IFNAME$|CONFIG$")
        clean = {name: value for name, value in os.environ.items() if not strange.search(name)}
        self._started += 1
        return Running(self.name, words, clean | environment, self._folder / f"{self.name}-{self._started}")


class Running:
    """A command on a host; its output goes to two files."""

    def __init__(self, host: str, words: tuple[str | Path, ...], environment: dict[str, str], path: Path) -> None:
        self._paths = [path.with_suffix(end) for end in (".out", ".err")]
        for file in self._paths:
            file.touch()
        self._process = Forked(_on_host, host, self._paths, *map(str, words), environment=environment)
        self._deadline = time.monotonic() + LIMIT

    @property
    def out(self) -> str:
        return self._paths[0].read_text()

    @property
    def err(self) -> str:
        return self._paths[1].read_text()

    def poll(self) -> int | None:
        return self._process.poll()

    def finish(self) -> int:
        """Wait for the end; returns the exit code."""
        self._wait(lambda: self.poll() is not None, "it ends")
        return self._process.returncode

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """Wait until stdout matches the pattern; returns the first match."""
        found: list[re.Match[str]] = []

        def there() -> bool:
            over = self.poll() is not None
            found.extend(re.finditer(pattern, self.out, re.MULTILINE))
            assert found or not over, f"it ended without {pattern!r}:\n{self}"
            return bool(found)

        self._wait(there, f"it prints {pattern!r}")
        return found[0]

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        try:
            wait_until(true, max(0.0, self._deadline - time.monotonic()), what, every=0.05)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self}") from None

    def __str__(self) -> str:
        return f"exit code {self.poll()}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def _on_host(name: str, outputs: list[Path], *words: str) -> int:
    """In a process of its own: enter the namespace and run `snakes`."""
    place = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(place, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot go to the network namespace {name}")
    for stream, file in zip((sys.stdout, sys.stderr), outputs, strict=True):
        os.dup2(os.open(file, os.O_WRONLY), stream.fileno())
    return snakes(*words)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


def _path_of_ip() -> str:
    return shutil.which("ip", path=_path()) or "ip"


def _ip(*words: str) -> str:
    done = subprocess.run([_path_of_ip(), *words], check=True, capture_output=True, text=True, timeout=30)
    return done.stdout
