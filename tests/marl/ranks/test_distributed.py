"""marl.ranks.distributed: real gloo ranks on loopback, each a process of its own (see rank_programs.py)."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
import torch
from helpers import HELPERS

from marl.errors import UserError
from marl.ranks import distributed
from marl.ranks.roll_call import EXIT_LOST_RANK

PROGRAMS = HELPERS / "rank_programs.py"
GROUP_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lossy(lose: str, world: int = 2) -> dict:
    stuck = int(lose.startswith("stop"))
    return group("train_until_lost", range(world), world, stuck, LOSE=lose, TIMEOUT="5")


def group(program: str, ranks, world: int = 2, stuck: int = 0, **environment: str) -> dict:
    return {"program": program, "ranks": list(ranks), "world": world, "stuck": stuck, "environment": environment}


GROUPS = {
    "together": group("together", (0, 1)),
    "missing": group("join", (0,), TIMEOUT="1"),
    "raise:1": lossy("raise:1"),
}
# group: the line that all ranks but the lost one end with
LOST = {
    "kill:1": "snakes: rank 1 of 2 stopped answering during update: ",
    "kill:0": "snakes: rank 0 of 2 stopped answering during update: ",  # it hosts the store
    "kill:2": "snakes: rank 2 of 4 stopped answering during update: ",  # not a neighbour of rank 0
    "stop:1": "snakes: rank 1 of 2 stopped answering during update: ",
    "stop:0": "snakes: rank 0 of 2 stopped answering during update: ",
    "nap:1": "snakes: rank 1 of 2 did not come to update within 5 s: it is still in a nap; ",
    "miss:1": "snakes: rank 1 of 2 did not come to save within 5 s: it is still in update; ",
}
GROUPS |= {name: lossy(name, world=4 if name == "kill:2" else 2) for name in LOST}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[int, tuple[int, str, str]]]:
    """(exit code, stdout, stderr) by group and rank, of all GROUPS, run side by side."""
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), "groups", str(folder), json.dumps(GROUPS)],
        env={k: v for k, v in os.environ.items() if k not in GROUP_VARIABLES}
        # As the launcher sets it: torch warns of a store that is gone with a screen of C++.
        | {"TORCH_CPP_LOG_LEVEL": "ERROR"}
        # torch asks the name server who 127.0.0.1 is whenever it connects, and waits 5 s for one that is silent.
        | {"RES_OPTIONS": "timeout:1 attempts:1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return {
        name: {
            int(rank): (code, *((folder / f"{name}.{rank}.{end}").read_text() for end in ("out", "err")))
            for rank, code in codes.items()
        }
        for name, codes in json.loads(done.stdout).items()
    }


def test_ranks_that_work_together(results) -> None:
    for rank, (code, out, err) in results["together"].items():
        assert code == 0, err
        assert err == ""
        assert out == (
            f"rank {rank}: update 9: critic.2.bias on rank 1 of 2 differs from the other ranks; "
            "go on with --resume and the run's folder\n"
        )


@pytest.mark.parametrize("name", LOST)
def test_a_lost_rank_is_named_by_all_others(name, results) -> None:
    deed, victim = name.split(":")
    for rank, (code, _, err) in results[name].items():
        if rank == int(victim) and deed in ("kill", "stop"):
            assert code == -signal.SIGKILL
            continue
        assert code == EXIT_LOST_RANK, err
        assert err.startswith(LOST[name]), err
        assert err.count("\n") == 1


def test_a_rank_with_a_bug_shows_its_traceback_and_the_other_names_it(results) -> None:
    other, buggy = results["raise:1"][0], results["raise:1"][1]
    assert buggy[0] == 1
    assert "ValueError: a bug" in buggy[2]
    assert other[0] == EXIT_LOST_RANK
    assert "rank 1 of 2" in other[2]


def test_a_rank_that_does_not_come_is_named(results) -> None:
    code, _, err = results["missing"][0]
    assert code == 2
    assert err.startswith("snakes: rank 1 of 2 did not come to 127.0.0.1:")
    assert err.count("\n") == 1


# The rest needs no second process.


@pytest.fixture
def alone(monkeypatch):
    for name in GROUP_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_without_ranks_there_is_solo(alone) -> None:
    group = distributed.start(device="cpu")
    module, tensor = torch.nn.Linear(2, 2), torch.ones(3)
    assert (group.rank, group.world, group.local_rank, group.is_main, group.backend) == (0, 1, 0, True, None)
    assert group.device == torch.device("cpu")
    assert group.wrap(module) is module
    with group.no_sync(module, module):
        pass
    assert group.sum_(tensor) is tensor
    assert group.mean_(tensor) is tensor
    assert group.any(True)
    assert not group.any(False)
    assert group.share("x") == "x"
    group.barrier("save")
    group.check_sync(module.named_parameters(), "update 1")
    assert distributed.explain(RuntimeError("Connection closed by peer"), group) is None
    group.close()


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
        distributed.start(device="cpu", timeout=1)
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
            distributed.start(device="cpu", timeout=0.3)
    assert "127.0.0.1" in str(caught.value)
    assert ("already in use" if rank == 0 else "cannot reach") in str(caught.value)


@pytest.mark.parametrize(
    ("backend", "device", "local_rank", "local_world", "gpus", "system", "expected"),
    [
        (None, "auto", 1, 2, 2, "linux", ("nccl", "cuda:1")),
        (None, "auto", 1, 2, 0, "linux", ("gloo", "cpu")),
        (None, "auto", 0, 2, 0, "darwin", ("gloo", "cpu")),
        (None, "auto", 0, 1, 1, "win32", ("gloo", "cuda:0")),
        (None, "cpu", 3, 4, 2, "linux", ("gloo", "cpu")),
        ("gloo", "auto", 3, 4, 2, "linux", ("gloo", "cuda:1")),
        ("gloo", "cuda:0", 3, 4, 2, "linux", ("gloo", "cuda:0")),
        (None, "cuda:1", 0, 1, 2, "linux", ("nccl", "cuda:1")),
    ],
)
def test_backend_and_device(backend, device, local_rank, local_world, gpus, system, expected) -> None:
    chosen, where = distributed.place(backend, device, local_rank, local_world, gpus, system)
    assert (chosen, str(where)) == expected


@pytest.mark.parametrize(
    ("backend", "device", "local_world", "gpus", "message"),
    [
        (None, "auto", 4, 1, r"4 ranks on this node but 1 GPU for them: .*--num_gpus 1, or --backend gloo"),
        ("nccl", "cuda:0", 2, 2, r"one GPU per rank"),
        ("nccl", "auto", 1, 0, r"--backend nccl needs a GPU .*--backend gloo"),
        ("nccl", "cpu", 1, 1, r"--backend nccl needs a GPU"),
        ("mpi", "auto", 1, 1, r"'mpi' is unknown; known: gloo, nccl"),
        (None, "cuda", 1, 0, r"--device cuda: .*--device cpu"),
        (None, "cuda:3", 1, 2, r"--device cuda:3: this machine has 2 GPUs"),
        (None, "tpu", 1, 2, r"--device tpu: unknown; known: auto, cpu, cuda"),
    ],
)
def test_backend_and_device_that_cannot_be(backend, device, local_world, gpus, message) -> None:
    with pytest.raises(UserError, match=message):
        distributed.place(backend, device, 0, local_world, gpus, "linux")


def test_nccl_defaults_never_override_the_user() -> None:
    environment = {"NCCL_DEBUG": "INFO", "PYTORCH_ALLOC_CONF": "garbage_collection_threshold:0.8"}
    before = dict(environment)
    assert distributed.defaults_for_nccl(environment) == {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert environment == before | {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert distributed.defaults_for_nccl(environment) == {}
    assert distributed.defaults_for_nccl({})["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


def test_learning_rate_scaling_and_warm_up() -> None:
    assert [distributed.lr_factor(scaling, 4) for scaling in ("none", "linear", "sqrt")] == [1.0, 4.0, 2.0]
    with pytest.raises(UserError, match="'cubic'"):
        distributed.lr_factor("cubic", 2)
    assert [distributed.warmup(update, 4) for update in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert distributed.warmup(0, 0) == 1.0


@pytest.mark.parametrize(
    ("details", "part"),
    [
        ([[("a", "1"), ("b", "1")]] * 2 + [[("a", "1"), ("b", "2")]], "b on rank 2 of 3 differs"),
        ([[("a", "0")], [("a", "1")], [("a", "1")]], "a on rank 0 of 3 differs"),
        ([[("a", "0")], [("a", "1")], [("a", "2")]], "a on ranks 1, 2 of 3 differs"),
        ([[("a", "0")], [("a", "0"), ("b", "1")]], "rank 1 of 2 has other parameters"),
    ],
)
def test_the_first_difference_is_named(details, part) -> None:
    assert part in distributed._first_difference(details)


def test_other_errors_are_not_taken_for_a_lost_rank() -> None:
    class Group:
        pass

    for error in (ValueError("by peer"), distributed.OutOfSync("gloo"), RuntimeError("shapes 2x3 and 4x5")):
        assert distributed.explain(error, Group()) is None


@pytest.mark.needs_cuda
def test_nccl_with_one_rank(alone) -> None:
    values = ("0", "1", "0", "1", "127.0.0.1", str(free_port()))
    for name, value in zip(GROUP_VARIABLES, values, strict=True):
        alone.setenv(name, value)
    group = distributed.start(timeout=30)
    assert group.backend == "nccl"
    module = group.wrap(torch.nn.Linear(3, 3).to(group.device))
    module(torch.ones(2, 3, device=group.device)).sum().backward()
    assert group.mean_(torch.ones(2, device=group.device)).tolist() == [1.0, 1.0]
    assert group.sum_(torch.ones(2)).tolist() == [1.0, 1.0]
    assert group.any(True)
    group.check_sync(module.named_parameters(), "update 1")
    group.barrier("save")
    group.close()
