"""Start of a rank: variables, addresses and ports that cannot be right."""

import ctypes
import ipaddress
import os
import socket
import sys
from pathlib import Path

import pytest
from helpers.forking import Forked
from helpers.ports import free_port
from helpers.rank_programs import GROUP_VARIABLES
from helpers.training import LIMIT

from marl.errors import UserError
from marl.ranks.network import is_loopback, own_address
from marl.ranks.startup import start


def listening(name: str) -> int:
    """In a forked process: a rank whose host has another machine's view of its name, which resolves to an address that
    others can reach. Prints where the rank listens."""
    libc, new_user_and_name = ctypes.CDLL(None), 0x10000000 | 0x4000000
    if libc.unshare(new_user_and_name) or libc.sethostname(name.encode(), len(name)):
        print("skip")
        return 0
    group = start("gloo", 120, "cpu")
    group.barrier("start")
    own = {os.readlink(link.path) for link in os.scandir("/proc/self/fd") if os.path.islink(link.path)}
    for family in ("tcp", "tcp6"):
        for line in Path("/proc/self/net", family).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                words = bytes.fromhex(fields[1].partition(":")[0])
                swapped = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
                print(ipaddress.ip_address(swapped))
    group.barrier("end")
    return 0


@pytest.mark.parametrize(
    ("environment", "parts"),
    [
        ({"RANK": "0"}, ["RANK is set but WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT are not", "torchrun"]),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h"}, ["MASTER_PORT is not"]),
        (dict.fromkeys(GROUP_VARIABLES, "1") | {"RANK": "two"}, ["RANK='two'", "whole number"]),
        (dict.fromkeys(GROUP_VARIABLES, "2"), ["RANK=2 but WORLD_SIZE=2", "0 to 1"]),
        (dict.fromkeys(GROUP_VARIABLES, "1") | {"RANK": "0", "MASTER_PORT": "99999"}, ["MASTER_PORT=99999"]),
        (dict.fromkeys(GROUP_VARIABLES, "1") | {"RANK": "0", "MASTER_ADDR": "no.such.invalid"}, ["no.such.invalid"]),
    ],
)
def test_a_wrong_environment_is_a_users_mistake(alone, environment, parts) -> None:
    for name, value in environment.items():
        alone.setenv(name, value)
    with pytest.raises(UserError) as caught:
        start(None, 1, "cpu")
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_port_in_use_or_out_of_reach_is_a_users_mistake(alone, rank) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if rank == 0:
            other.listen()
        port = str(other.getsockname()[1])
        for name, value in zip(GROUP_VARIABLES, (str(rank), "2", str(rank), "2", "127.0.0.1", port), strict=True):
            alone.setenv(name, value)
        with pytest.raises(UserError, match=port) as caught:
            start(None, 0.3, "cpu")
    assert "127.0.0.1" in str(caught.value)
    assert ("already in use" if rank == 0 else "cannot reach") in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="names of hosts by namespaces are Linux's")
def test_ranks_of_one_machine_listen_on_loopback_whatever_the_host_is_called(alone) -> None:
    outside = own_address("10.255.255.255")
    if outside is None or is_loopback(outside):
        pytest.skip("this machine has no address that others could reach")
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    place |= {"RES_OPTIONS": "timeout:1 attempts:1"}
    ranks = [
        Forked(listening, outside, environment=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    try:
        told = [rank.communicate(timeout=LIMIT)[0].split() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if ["skip"] in told:
        pytest.skip("this system does not allow namespaces")
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert all(told), "gloo listens in every rank"
    assert {*told[0], *told[1]} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("address", "is_one"),
    [("127.0.0.1", True), ("127.0.1.1", True), ("::1", True), ("192.0.2.1", False), ("no.such.invalid", False)],
)
def test_which_addresses_are_loopback(address, is_one) -> None:
    assert is_loopback(address) == is_one
