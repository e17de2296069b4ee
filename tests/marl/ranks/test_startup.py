"""Start of a rank: variables, addresses and ports that cannot be right."""

import socket

import pytest
from helpers.rank_programs import GROUP_VARIABLES

from marl.errors import UserError
from marl.ranks.startup import start


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
