"""The TCP store of a process group, where its ranks meet, and the ranks that did not come."""

import socket
import time
from datetime import timedelta

import torch.distributed as dist

from arena import system
from marl.cli.wording import named_ranks
from marl.errors import UserError
from marl.ranks.environment import agent_hosts_store
from marl.ranks.exits import LostRank
from marl.ranks.network import bind_error, check_server, is_loopback, listen_at, wait_for_server

USE_LIBUV = system.HAS_FORK  # it is not built into torch for Windows
_listening: list[int] = []  # see host_at; empty: rank 0 opens the socket


def host_at(listening_socket: int) -> None:
    """For rank 0: host the store at this socket (a file descriptor), which the launcher has opened."""
    _listening[:] = [listening_socket]


def serve_on_loopback(address: str, port: int) -> dist.TCPStore:
    """A store of this process that only this machine can reach, where torch takes a socket. Port 0: any."""
    if not system.SOCKETS_ARE_FILES:
        return dist.TCPStore(address, port, is_master=True, wait_for_workers=False, use_libuv=USE_LIBUV)
    server = listen_at(address, port)
    port = server.getsockname()[1]
    return dist.TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach())


class RendezvousStore:
    """Opens the store at MASTER_ADDR:MASTER_PORT once all ranks of the group have joined."""

    def __init__(self, address: str, port: int, rank: int, world: int, timeout: float) -> None:
        self.address, self.port, self.rank, self.world, self.timeout = address, port, rank, world, timeout
        self._at = f"{address}:{port} (MASTER_ADDR, MASTER_PORT)"
        # Otherwise torch's elastic agent hosts it. A store of rank 0 ends with rank 0.
        self.is_hosted_by_rank_0 = not agent_hosts_store()

    def open(self) -> dist.Store:
        """The store, once all ranks have joined."""
        is_host = self.is_hosted_by_rank_0 and self.rank == 0
        deadline = time.monotonic() + self.timeout
        if is_host and not _listening:
            self._check_free()
            if system.SOCKETS_ARE_FILES and is_loopback(self.address):
                host_at(listen_at(self.address, self.port).detach())
        elif not is_host:
            self._wait_for_server()
        store = self._connect(is_host)
        try:
            store.set(f"here/{self.rank}", "1")
            # After an elastic restart, an agent's store may still hold keys of ranks from the start before.
            while absent := [rank for rank in range(self.world) if not store.check([f"here/{rank}"])]:
                if time.monotonic() > deadline:
                    raise LostRank(
                        f"{named_ranks(absent)} of {self.world} did not come to {self._at} within {self.timeout:g} s; "
                        "look at what it printed, and start all ranks again"
                    )
                time.sleep(0.05)
        except dist.DistError as error:
            raise LostRank(f"the store at {self._at} is gone: look at what rank 0 printed") from error
        return store

    def check_server(self, timeout: float) -> None:
        """Raise OSError unless a server listens at the store's address."""
        check_server(self.address, self.port, timeout)

    def _connect(self, is_host: bool) -> dist.Store:
        try:
            return dist.TCPStore(
                self.address,
                self.port,
                is_master=is_host,
                timeout=timedelta(seconds=self.timeout),
                wait_for_workers=False,  # torch only counts ranks; open() names the missing ones
                use_libuv=USE_LIBUV,
                master_listen_fd=_listening[0] if is_host and _listening else None,
            )
        except RuntimeError as error:
            raise UserError(
                f"no store of a process group answers at {self._at}: is that the address of rank 0?"
            ) from error

    def _check_free(self) -> None:
        try:
            socket.getaddrinfo(self.address, self.port)
        except socket.gaierror as error:
            raise UserError(f"{self._at}: no such host") from error
        refusal = bind_error(self.port)
        if refusal is not None:
            raise UserError(
                f"port {self.port} on {self.address} cannot be used ({refusal.strerror}); "
                "choose another with --master_port or MASTER_PORT"
            ) from refusal

    def _wait_for_server(self) -> None:
        try:
            wait_for_server(self.address, self.port, self.timeout, retry_unknown_host=False)
        except OSError as error:
            raise UserError(
                f"cannot reach {self._at} within {self.timeout:g} s ({error.strerror or error}): "
                "is rank 0 running there, and the port open?"
            ) from error
