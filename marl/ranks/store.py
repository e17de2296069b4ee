"""Where the ranks of a process group meet, and who did not come."""

import os
import socket
import sys
import time
from datetime import timedelta

import torch.distributed as dist

from marl.errors import UserError
from marl.wording import named_ranks


class LostRank(RuntimeError):
    """A rank is dead or hangs. The message names it and what was going on."""


class Meeting:
    """The store where the ranks meet, at MASTER_ADDR:MASTER_PORT."""

    def __init__(self, address: str, port: int, rank: int, world: int, timeout: float) -> None:
        self.address, self.port, self.rank, self.world, self.timeout = address, port, rank, world, timeout
        self._at = f"{address}:{port} (MASTER_ADDR, MASTER_PORT)"
        # torchrun may host the store itself, and says so; otherwise rank 0 does, and it ends with rank 0.
        self.is_ours = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def open(self) -> dist.Store:
        """The store, once all ranks have come to it."""
        host = self.is_ours and self.rank == 0
        deadline = time.monotonic() + self.timeout
        # Looked at with plain sockets first: torch fills a screen with its own account before it raises.
        self._check_free() if host else self._await_server(deadline)
        store = self.connect(host)
        try:
            store.set(f"here/{self.rank}", "1")
            while self.absent(store):
                if time.monotonic() > deadline:
                    raise self.lost(self.absent(store))
                time.sleep(0.05)
        except dist.DistError as error:
            raise LostRank(f"the store at {self._at} is gone: look at what rank 0 printed") from error
        return store

    def connect(self, host: bool = False) -> dist.Store:
        try:
            return dist.TCPStore(
                self.address,
                self.port,
                is_master=host,
                timeout=timedelta(seconds=self.timeout),
                wait_for_workers=False,  # absent() can say who is missing; torch only counts
                use_libuv=sys.platform != "win32",  # not built into torch for Windows
            )
        except RuntimeError as error:
            raise UserError(
                f"no store of a process group answers at {self._at}: is that the address of rank 0?"
            ) from error

    def absent(self, store: dist.Store) -> list[int]:
        """Who has not come yet. After an elastic restart a launcher's store may still name those who came before it."""
        return [rank for rank in range(self.world) if not store.check([f"here/{rank}"])]

    def lost(self, ranks: list[int]) -> LostRank:
        return LostRank(
            f"{named_ranks(ranks)} of {self.world} did not come to {self._at} within {self.timeout:g} s; "
            "look at what it printed, and start all ranks again"
        )

    def probe(self, timeout: float) -> None:
        """Raise OSError unless something listens there."""
        socket.create_connection((self.address, self.port), timeout=timeout).close()

    def _check_free(self) -> None:
        try:
            socket.getaddrinfo(self.address, self.port)
            with socket.socket() as probe:
                if os.name == "posix":  # as torch does: a port whose last user has just ended is free
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", self.port))
        except socket.gaierror as error:
            raise UserError(f"{self._at}: no such host") from error
        except OSError as error:
            raise UserError(
                f"port {self.port} on {self.address} cannot be used ({error.strerror}); "
                "choose another with --master_port or MASTER_PORT"
            ) from error

    def _await_server(self, deadline: float) -> None:
        while True:
            try:
                return self.probe(5.0)
            except OSError as error:
                if isinstance(error, socket.gaierror) or time.monotonic() > deadline:
                    raise UserError(
                        f"cannot reach {self._at} within {self.timeout:g} s ({error.strerror or error}): "
                        "is rank 0 running there, and the port open?"
                    ) from error
                time.sleep(0.1)
