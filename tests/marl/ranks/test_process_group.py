"""Solo and Ranks: real gloo ranks on loopback, each a process of its own (see rank_programs.py)."""

import json
import os
import re
import signal

import pytest
import torch
from helpers.forking import Forked
from helpers.ports import free_port
from helpers.rank_programs import GROUP_VARIABLES, groups
from helpers.training import LIMIT

from marl.ranks.exits import EXIT_LOST_RANK
from marl.ranks.lost_rank import explain
from marl.ranks.startup import start


def lossy(lose: str, world: int = 2) -> dict:
    stuck = int(lose.startswith("stop"))
    lose, _, rest = lose.partition(" ")
    over = {} if rest == "in memory" else {"BACKEND": "gloo"}
    work = "1" if rest == "work" else ""
    return group("train_until_lost", range(world), world, stuck, LOSE=lose, WORK=work, TIMEOUT="5", **over)


def group(program: str, ranks, world: int = 2, stuck: int = 0, **environment: str) -> dict:
    return {"program": program, "ranks": list(ranks), "world": world, "stuck": stuck, "environment": environment}


GROUPS = {
    "together": group("together", (0, 1)),
    "together by gloo": group("together", (0, 1), BACKEND="gloo"),
    "sums of 3": group("sum_in_memory", range(3), 3),
    "sums of 4": group("sum_in_memory", range(4), 4),
    "another machine": group("sum_without_memory", (0, 1), WITHOUT="_place:1"),
    "no room": group("sum_without_memory", (0, 1), WITHOUT="_create:0"),
    "no mapping": group("sum_without_memory", (0, 1), WITHOUT="_map:1"),
    "work_long": group("work_long", (0, 1), TIMEOUT="2"),
    "missing": group("join", (0,), TIMEOUT="1"),
    "raise:1": lossy("raise:1"),
}
# Group: the last line of all ranks but the lost one.
LOST = {
    "kill:1": "snakes: rank 1 of 2 stopped answering during update: ",
    "kill:0": "snakes: rank 0 of 2 stopped answering during update: ",  # it hosts the store
    "kill:2": "snakes: rank 2 of 4 stopped answering during update: ",  # no neighbour of rank 0
    "stop:1": "snakes: rank 1 of 2 stopped answering during update: ",
    "stop:0": "snakes: rank 0 of 2 stopped answering during update: ",
    "nap:1": "snakes: rank 1 of 2 did not come to update within 5 s: it is still in a nap; ",
    "kill:1 work": "snakes: rank 1 of 2 stopped answering during update: ",  # the other rank is at work, too
    "kill:0 work": "snakes: rank 0 of 2 stopped answering during update: ",
    "stop:1 work": "snakes: rank 1 of 2 stopped answering during update: ",
    "kill:1 in memory": "snakes: rank 1 of 2 stopped answering during update: ",
    "kill:2 in memory": "snakes: rank 2 of 4 stopped answering during update: ",
    "stop:1 in memory": "snakes: rank 1 of 2 stopped answering during update: ",
    "nap:1 in memory": "snakes: rank 1 of 2 did not come to update within 5 s: it is still in a nap; ",
    "miss:1": "snakes: rank 1 of 2 did not come to save within 5 s: it is still in update; ",
}
GROUPS |= {name: lossy(name, world=4 if name.startswith("kill:2") else 2) for name in LOST}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[int, tuple[int, str, str]]]:
    """(exit code, stdout, stderr) of all GROUPS, by group and rank; the groups run side by side."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {k: v for k, v in os.environ.items() if k not in GROUP_VARIABLES}
    # torch looks up the name of 127.0.0.1 at every connection, and waits 5 s for a silent name server.
    environment["RES_OPTIONS"] = "timeout:1 attempts:1"
    process = Forked(groups, str(folder), GROUPS, environment=environment)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    return {
        name: {
            int(rank): (code, *((folder / f"{name}.{rank}.{end}").read_text() for end in ("out", "err")))
            for rank, code in codes.items()
        }
        for name, codes in json.loads(out).items()
    }


@pytest.mark.parametrize("name", ["sums of 3", "sums of 4", "another machine", "no room", "no mapping"])
def test_sums_go_through_shared_memory_where_all_ranks_have_it(name, results) -> None:
    for code, _, err in results[name].values():
        assert (code, err) == (0, "")


@pytest.mark.parametrize("name", ["together", "together by gloo"])
def test_all_collectives_of_two_ranks(name, results) -> None:
    for rank, (code, out, err) in results[name].items():
        assert code == 0, err
        assert err == ""
        assert out == (
            f"rank {rank}: update 9: critic.2.bias on rank 1 of 2 differs from the other ranks; "
            "resume it with --resume and the run's folder\n"
        )


def test_ranks_wait_for_long_work_beyond_the_time_limit(results) -> None:
    for rank, (code, out, err) in results["work_long"].items():
        assert (code, err) == (0, "")
        assert int(re.fullmatch(rf"rank {rank}: (\d+) s\n", out)[1]) >= 12


@pytest.mark.parametrize("name", LOST)
def test_a_lost_rank_is_named_by_all_others(name, results) -> None:
    deed, victim = name.partition(" ")[0].split(":")
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


# --- without a second process


def test_without_ranks_there_is_solo(alone) -> None:
    group = start(None, 60, "cpu")
    module, tensor = torch.nn.Linear(2, 2), torch.ones(3)
    assert (group.rank, group.world, group.is_main, group.backend) == (0, 1, True, None)
    assert group.device == torch.device("cpu")
    assert group.wrap(module) is module
    with group.no_sync(module, module):
        pass
    assert group.sum_(tensor) is tensor
    assert group.mean_(tensor) is tensor
    assert group.any(True)
    assert not group.any(False)
    assert group.broadcast("x") == "x"
    with group.keep_alive():
        pass
    group.barrier("save")
    group.check_sync(module.named_parameters(), "update 1")
    assert explain(RuntimeError("Connection closed by peer"), group) is None
    group.close()


@pytest.mark.needs_cuda
def test_nccl_with_one_rank(alone) -> None:
    values = ("0", "1", "0", "1", "127.0.0.1", str(free_port()))
    for name, value in zip(GROUP_VARIABLES, values, strict=True):
        alone.setenv(name, value)
    group = start(None, 30)
    assert group.backend == "nccl"
    module = group.wrap(torch.nn.Linear(3, 3).to(group.device))
    module(torch.ones(2, 3, device=group.device)).sum().backward()
    assert group.mean_(torch.ones(2, device=group.device)).tolist() == [1.0, 1.0]
    assert group.sum_(torch.ones(2)).tolist() == [1.0, 1.0]
    assert group.any(True)
    group.check_sync(module.named_parameters(), "update 1")
    group.barrier("save")
    group.close()
