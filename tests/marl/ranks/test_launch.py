"""marl.ranks.launch: pure decisions as tables, and real launches of small rank programs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers import HELPERS

from marl.errors import UserError
from marl.machine import processor
from marl.ranks.launch import _check_free, _check_not_loopback, _interface, _own_address, nodes_from, ranks_here

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = HELPERS / "rank_programs.py"


@pytest.mark.parametrize(
    ("environment", "cores", "gpus", "asked", "expected"),
    [
        ({}, 8, 0, None, 4),
        ({}, 1, 0, None, 1),
        ({}, 64, 2, None, 2),
        ({"NPROC": "3"}, 8, 0, None, 3),
        ({"NPROC": "4"}, 8, 2, None, 4),
        ({"NPROC": ""}, 8, 2, None, 2),
        ({}, 8, 4, 2, 2),
        ({"NPROC": "4"}, 8, 4, 2, 2),
    ],
)
def test_ranks_here(environment, cores, gpus, asked, expected) -> None:
    assert ranks_here(environment, cores, gpus, asked) == expected


@pytest.mark.parametrize(
    ("environment", "gpus", "asked", "message"),
    [
        ({"NPROC": "two"}, 0, None, "NPROC=two: a whole number"),
        ({"NPROC": "0"}, 0, None, "NPROC=0: a whole number of at least 1"),
        ({"NPROC": "-1"}, 0, None, "NPROC=-1"),
        ({}, 0, 4, "--num_gpus 4: this machine has no GPU; use NPROC=4 ./train_ddp.sh for 4 CPU ranks"),
        ({}, 2, 4, "--num_gpus 4: this machine has 2"),
        ({}, 2, 0, "--num_gpus 0"),
    ],
)
def test_ranks_here_mistakes(environment, gpus, asked, message) -> None:
    with pytest.raises(UserError) as caught:
        ranks_here(environment, 8, gpus, asked)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ((1, 1), 0, None, None)),
        ({"MASTER_PORT": "12356"}, ((1, 1), 0, None, 12356)),
        (
            {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "n0", "MASTER_PORT": "29500"},
            ((2, 2), 1, "n0", 29500),
        ),
        ({"NNODES": "1:4", "NODE_RANK": "3", "MASTER_ADDR": "n0"}, ((1, 4), 3, "n0", None)),
    ],
)
def test_nodes_from(environment, expected) -> None:
    assert nodes_from(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"NNODES": "2"}, "NNODES=2 but MASTER_ADDR is not set"),
        ({"NNODES": "2", "MASTER_ADDR": "n0"}, "NNODES=2 but NODE_RANK is not set"),
        ({"NNODES": "2", "MASTER_ADDR": "n0", "NODE_RANK": "2"}, "NODE_RANK=2 but NNODES=2"),
        ({"NODE_RANK": "1"}, "NODE_RANK=1 but NNODES=1"),
        ({"NODE_RANK": "first"}, "NODE_RANK=first: a whole number"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT=http: a whole number"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000"),
        ({"NNODES": "0"}, "NNODES=0"),
        ({"NNODES": "4:2"}, "NNODES=4:2"),
        ({"NNODES": "many"}, "NNODES=many"),
    ],
)
def test_nodes_from_mistakes(environment, message) -> None:
    with pytest.raises(UserError) as caught:
        nodes_from(environment)
    assert str(caught.value).startswith(message)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} on 127.0.0.1 is in use; .*--master_port"):
            _check_free("127.0.0.1", port)
    _check_free("127.0.0.1", port)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its interfaces")
def test_the_interface_of_an_address() -> None:
    assert _own_address("127.0.0.1") == "127.0.0.1"
    assert _interface("127.0.0.1") == "lo"
    assert _interface("192.0.2.1") is None


@pytest.mark.parametrize(
    ("address", "own", "environment"),
    [
        ("10.0.0.1", "10.0.0.1", {}),
        ("n0", "10.0.0.2", {"GLOO_SOCKET_IFNAME": "eth0"}),
        ("n0", None, {}),  # no way there yet: the nodes will not meet, and that is told
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


class Unplugged:
    """A store that answers until its cable is cut, and then never."""

    def __init__(self) -> None:
        self.cut, self.healed, self.calls = False, threading.Event(), 0

    def get(self, key: str) -> bytes:
        self.calls += 1
        if self.cut:
            self.healed.wait(60)
        return key.encode()

    def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
        raise ValueError("no such key")


def test_calls_to_a_store_that_does_not_answer_end() -> None:
    from marl.ranks.rendezvous import BoundedStore

    store = Unplugged()
    bounded = BoundedStore(store, 0.2)
    assert [bounded.get("a"), bounded.get("b")] == [b"a", b"b"]
    store.cut = True
    try:
        with pytest.raises(RuntimeError, match="no answer within"):
            bounded.get("a")
        with pytest.raises(RuntimeError, match="is lost"):
            bounded.get("a")
        assert store.calls == 3  # the last one was not asked
    finally:
        store.healed.set()
    with pytest.raises(RuntimeError, match="no such key"):
        BoundedStore(store, 10.0).compare_set("a", "", "b")


# --- real launches


def launcher(code: str, *words: str) -> subprocess.Popen[str]:
    hidden = ("OMP_NUM_THREADS", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "FAIL")
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in hidden},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.terminate()  # ends its ranks too
        process.communicate(timeout=90)
        raise
    return process.returncode, out, err


# One after another in one process, as loading torch takes longest: (environment, words, program, settings of launch)
LAUNCHES = {
    "fine": ({}, ["--max_episodes", "7"], "tell_environment", {}),
    "mine": ({"OMP_NUM_THREADS": "5"}, [], "tell_environment", {"port": True}),
    "exit 2": ({"FAIL": "2"}, [], "fail", {"max_restarts": 2}),
    "exit 3": ({"FAIL": "3"}, [], "fail", {}),
    "exit 4": ({"FAIL": "4"}, [], "fail", {"max_restarts": 2}),
    "exit 5": ({"FAIL": "5"}, [], "fail", {"max_restarts": 1}),
    "exit 7": ({"FAIL": "7"}, [], "fail", {}),
    "kill": ({"FAIL": "kill"}, [], "fail", {}),
    "raise": ({"FAIL": "raise"}, [], "fail", {}),
    "restart": ({}, [], "fail_once", {"max_restarts": 1}),
}
LAUNCH_ALL = """
import json, os, socket, sys
from marl.ranks.launch import launch
from helpers import HELPERS
for environment, words, program, settings in json.loads(sys.argv[2]):
    os.environ.update(environment)
    if settings.pop("port", None):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            settings["master_port"] = probe.getsockname()[1]
    code = launch(words, 2, program=(sys.argv[1], program), **settings)
    for stream in (sys.stdout, sys.stderr):
        print(f"=== {code}", file=stream, flush=True)
"""


@pytest.fixture(scope="module")
def launches() -> dict[str, tuple[int, str, str]]:
    """(returned code, stdout, stderr) of each of LAUNCHES."""
    code, out, err = finish(launcher(LAUNCH_ALL, str(PROGRAMS), json.dumps(list(LAUNCHES.values()))))
    assert code == 0, err
    parts = [re.findall(r"(.*?)=== (\d+)\n", text, re.DOTALL) for text in (out, err)]
    return {name: (int(o[1]), o[0], e[0]) for name, o, e in zip(LAUNCHES, *parts, strict=True)}


def test_every_rank_gets_the_words_and_the_environment(launches) -> None:
    code, out, err = launches["fine"]
    assert (code, err) == (0, "")
    threads = max(1, processor()["cores"] // 2)
    assert sorted(out.splitlines()) == [
        f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK={rank} OMP_NUM_THREADS={threads} "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 --max_episodes 7"
        for rank in (0, 1)
    ]


def test_what_the_user_has_set_stays(launches) -> None:
    code, out, err = launches["mine"]
    assert (code, err) == (0, "")
    assert out.count("OMP_NUM_THREADS=5 ") == 2


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
            "snakes: rank 1 was killed by SIGKILL (out of memory?); go on with --resume and the run's folder\n",
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
    code = "import sys; from marl.ranks.launch import launch; sys.exit(launch([], 2, program=sys.argv[1:]))"
    process = launcher(code, str(PROGRAMS), "wait_for_term")
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    process.send_signal(number)
    code, out, err = finish(process)
    assert code == 128 + number
    assert sorted(out.splitlines()) == ["rank 0 got SIGTERM", "rank 1 got SIGTERM"]
    assert err == f"snakes: stopped by {number.name}\n"
