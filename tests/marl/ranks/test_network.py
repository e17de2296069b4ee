"""Addresses and interfaces of this machine, and the wait for a server."""

import socket
import sys
import threading

import pytest

from marl.ranks.network import interface_of, own_address, wait_for_server


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its interfaces")
def test_the_interface_of_an_address() -> None:
    assert own_address("127.0.0.1") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None


def test_a_server_that_starts_late_is_waited_for() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        threading.Timer(0.3, server.listen).start()
        wait_for_server("127.0.0.1", port, 60.0, retry_unknown_host=False)
        assert server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def test_the_wait_for_a_server_ends() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            wait_for_server("127.0.0.1", server.getsockname()[1], 0.2, retry_unknown_host=True)


def test_an_unknown_host_is_an_error_at_once_unless_it_is_retried(monkeypatch) -> None:
    attempts = []

    def unknown(address: tuple[str, int], timeout: float) -> None:
        attempts.append(address)
        raise socket.gaierror

    monkeypatch.setattr(socket, "create_connection", unknown)
    with pytest.raises(socket.gaierror):
        wait_for_server("no.such.invalid", 1, 0.2, retry_unknown_host=False)
    assert len(attempts) == 1
    with pytest.raises(socket.gaierror):
        wait_for_server("no.such.invalid", 1, 0.2, retry_unknown_host=True)
    assert len(attempts) > 2
