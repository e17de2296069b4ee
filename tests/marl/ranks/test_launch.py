"""The launcher: checks before the start, and real launches of small rank programs."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from helpers import rank_programs
from helpers.forking import Forked
from helpers.training import LIMIT

from arena import system
from marl.compute.machine import processor
from marl.errors import UserError
from marl.ranks.launch import _check_free, _check_not_loopback, stop_on_signal


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} on 127.0.0.1 is in use; .*--master_port"):
            _check_free("127.0.0.1", port)
    _check_free("127.0.0.1", port)


@pytest.mark.parametrize(
    ("address", "own", "environment"),
    [
        ("10.0.0.1", "10.0.0.1", {}),
        ("n0", "10.0.0.2", {"GLOO_SOCKET_IFNAME": "eth0"}),
        ("n0", None, {}),  # no route yet: the rendezvous will fail with its own message
        ("localhost", "127.0.0.1", {"GLOO_SOCKET_IFNAME": "lo"}),  # all nodes on this machine
    ],
)
def test_an_address_that_other_hosts_can_reach(address, own, environment) -> None:
    _check_not_loopback(address, own, environment)


@pytest.mark.parametrize("environment", [{}, {"GLOO_SOCKET_IFNAME": "eth0"}])
@pytest.mark.parametrize("address", ["n0", "127.0.1.1"])
def test_an_address_that_is_loopback_here(address, environment) -> None:
    with pytest.raises(UserError, match=f"^MASTER_ADDR={address} is loopback here, .*: give the address of"):
        _check_not_loopback(address, "127.0.0.1", environment)


# --- real launches


HIDDEN = ("OMP_NUM_THREADS", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "FAIL")


def launcher(call: Callable[..., int], *words: Any) -> Forked:
    """A launcher that has torch loaded; its ranks are new processes of Python, unless they load torch."""
    return Forked(call, *words, environment={k: v for k, v in os.environ.items() if k not in HIDDEN})


def finish(process: Forked) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()  # ends its ranks too
        process.communicate(timeout=LIMIT)
        raise
    return process.returncode, out, err


# (environment, words, program, launch arguments)
LAUNCHES = {
    "fine": ({}, ["--max_episodes", "7"], "tell_environment", {}),
    "mine": ({"OMP_NUM_THREADS": "5"}, [], "tell_environment", {"port": "free"}),
    "store": ({}, [], "reach_store", {}),
    "exit 2": ({"FAIL": "2"}, [], "fail", {"max_restarts": 2}),
    "exit 3": ({"FAIL": "3"}, [], "fail", {}),
    "exit 4": ({"FAIL": "4"}, [], "fail", {"max_restarts": 2}),
    "exit 5": ({"FAIL": "5"}, [], "fail", {"max_restarts": 1}),
    "exit 7": ({"FAIL": "7"}, [], "fail", {}),
    "kill": ({"FAIL": "kill"}, [], "fail", {}),
    "raise": ({"FAIL": "raise"}, [], "fail", {}),
    "restart": ({}, [], "fail_once", {"max_restarts": 1}),
}


@pytest.fixture(scope="module")
def launches() -> dict[str, tuple[int, str, str]]:
    """(returned code, stdout, stderr) of each of LAUNCHES."""
    names = list(LAUNCHES)
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]  # side by side
    running = [launcher(rank_programs.launch_all, [LAUNCHES[name] for name in half]) for half in halves]
    found = {}
    for half, (code, out, err) in zip(halves, map(finish, running), strict=True):
        assert code == 0, err
        parts = [re.findall(r"(.*?)=== (\d+)\n", text, re.DOTALL) for text in (out, err)]
        found |= {name: (int(o[1]), o[0], e[0]) for name, o, e in zip(half, *parts, strict=True)}
    return found


def test_every_rank_gets_the_words_and_the_environment(launches) -> None:
    code, out, err = launches["fine"]
    assert (code, err) == (0, "")
    threads = max(1, processor()["cores"] // 2)
    assert sorted(out.splitlines()) == [
        f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK={rank} OMP_NUM_THREADS={threads} --max_episodes 7" for rank in (0, 1)
    ]


def test_the_store_is_open_before_the_ranks_start(launches) -> None:
    assert launches["store"] == (0, "answers\nanswers\n", "")


def test_what_the_user_has_set_stays(launches) -> None:
    code, out, err = launches["mine"]
    assert (code, err) == (0, "")
    assert out.count("OMP_NUM_THREADS=5\n") == 2


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("exit 2", 2, ""),
        ("exit 3", 3, ""),
        ("exit 4", 1, ""),
        ("exit 7", 7, "snakes: rank 1 failed with exit code 7; its own message is above\n"),
        (
            "kill",
            137,
            "snakes: rank 1 was killed by SIGKILL (out of memory?); resume it with --resume and the run's folder\n",
        ),
    ],
)
def test_a_failed_rank_is_told_in_one_line(name, code, line, launches) -> None:
    assert launches[name] == (code, "", line)


def test_a_rank_that_raises_shows_its_own_traceback_and_nothing_of_torch(launches) -> None:
    code, _, err = launches["raise"]
    assert code == 1
    assert err.count("Traceback") == 1
    assert err.endswith("ValueError: a bug\nsnakes: rank 1 failed with exit code 1; its own message is above\n")
    assert "torch" not in err


def test_a_mistake_is_not_repeated_and_another_failure_as_often_as_it_may_be(launches) -> None:
    assert [launches[name][1] for name in ("exit 2", "exit 4", "exit 5")] == ["", "", "again\n"]


def test_a_dead_rank_is_started_again(launches) -> None:
    assert launches["restart"][:2] == (0, "2 ranks after a restart\n"), launches["restart"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_ends_the_ranks_with_term(number) -> None:
    process = launcher(rank_programs.launch_waiting)
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    process.send_signal(number)
    code, out, err = finish(process)
    assert code == 128 + number
    assert sorted(out.splitlines()) == ["rank 0 got SIGTERM", "rank 1 got SIGTERM"]
    assert err == f"snakes: stopped by {number.name}\n"


def test_without_sessions_the_ranks_are_left_to_end_by_themselves(monkeypatch) -> None:
    """Ctrl-C has reached them as well."""
    monkeypatch.setattr(system, "HAS_SESSIONS", False)
    with stop_on_signal(lambda text, _: RuntimeError(text)) as stopped:
        signal.raise_signal(signal.SIGINT)
    assert stopped == [signal.SIGINT]
