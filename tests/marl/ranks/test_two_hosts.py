"""Training on two hosts (two network namespaces of this machine): it runs, and it survives a cut cable."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from helpers import two_hosts
from helpers.command import ROOT
from helpers.processes import wait_until
from helpers.two_hosts import Hosts, Running

from marl.storage import checkpoint_finder

PORT = "29555"  # free: nothing else runs on these hosts
MATCHES, TURNS = 8, 20
TINY = (
    "--config", ROOT / "configs" / "smoke.yaml", "--device", "cpu", "--matches", str(MATCHES), "--body", "16,16",
    "--batch_size", "48", "--turns", str(TURNS), "--updates", "1", "--check_sync", "1", "--log_interval", "4",
    "--save_interval", "8", "--eval_matches", "2", "--run_name", "pair",
)  # fmt: skip

# What host 1 prints, whose rank is not rank 0.
JOINS = "snakes: node 1 with 1 rank joins {} nodes at {}"
BEGINS = re.compile(r"snakes: rank 1 of 2 on \S+: training \S+; rank 0 on \S+ prints the progress")
ENDS = re.compile(r"snakes: rank 1 of 2 on \S+: ended by max_episodes at episode 240")


@pytest.fixture
def hosts(tmp_path):
    if two_hosts.missing():
        pytest.skip(two_hosts.missing())
    with two_hosts.two_hosts(tmp_path) as made:
        yield made


def train(hosts: Hosts, number: int, *words: str | Path, nodes: int = 2, port: str = PORT) -> Running:
    """The training on one of the hosts, in one rank; only the node rank differs between the hosts."""
    return hosts[number].start(
        "train", "--distributed", *TINY, *words,
        NNODES=str(nodes), NODE_RANK=str(number), MASTER_ADDR=hosts[0].address, MASTER_PORT=port, NPROC="1",
        PLANTED="0:patience:2 1:patience:2",
    )  # fmt: skip


def saved(run: Path) -> tuple[int, int]:
    """Episode and number of ranks of the newest checkpoint, with its sums checked."""
    newest = checkpoint_finder.load_newest(run)
    newest.part("state")
    about = json.loads((newest.path / "manifest.json").read_text())
    assert [name for name in about["files"] if name.startswith("rank")] == ["rank0.pt", "rank1.pt"]
    return about["episode"], about["world_size"]


def logged(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "time/global_fps" in line]


def rendezvous_line(hosts: Hosts) -> str:
    return f"snakes: 2 nodes meet at {hosts[0].address}:{PORT} through network interface cable"


def joining_line(hosts: Hosts) -> str:
    return JOINS.format(2, f"{hosts[0].address}:{PORT} through network interface cable")


def test_a_cut_cable_is_told_and_after_it_heals_the_same_commands_go_on(hosts, tmp_path) -> None:
    words = (
        "--max_episodes",
        "240",
        "--runs_dir",
        tmp_path / "runs",
        "--timeout",
        "8",
        "--rank_logs",
        tmp_path / "logs",
    )
    both = [train(hosts, number, *words) for number in (0, 1)]
    both[0].wait_for_line(r"^episode (1[2-9]|[2-9]\d)/")  # by then there is a checkpoint
    hosts.cut()
    codes = [host.finish() for host in both]
    assert codes == [3, 3], "\n".join(map(str, both))
    first, second = (host.err.splitlines() for host in both)
    assert first[0] == rendezvous_line(hosts)
    assert second[0] == joining_line(hosts)
    assert BEGINS.fullmatch(second[1])
    assert (len(first), len(second)) == (2, 3)
    for lost, line in zip(("rank 1 of 2", "the launcher of rank 0"), (first[-1], second[-1]), strict=True):
        assert re.match(rf"snakes: {lost} stopped answering during .* cut off; resume it with --resume", line)
    wait_until(lambda: not hosts.processes(), 60, "no process is left")
    (run,) = (tmp_path / "runs" / "snakes_3v3").iterdir()
    assert run.name == "pair"
    stopped, _ = saved(run)
    assert 8 <= stopped < 240

    hosts.heal()
    both = [train(hosts, number, *words) for number in (0, 1)]
    assert [host.finish() for host in both] == [0, 0], "\n".join(map(str, both))
    assert both[0].err.splitlines() == [rendezvous_line(hosts)]
    joins, begins, ends = both[1].err.splitlines()
    assert both[1].out == ""
    assert joins == joining_line(hosts)
    assert BEGINS.fullmatch(begins)
    assert begins.split(": ")[2].startswith(f"training {run}; ")
    assert ENDS.fullmatch(ends)
    for rank in (0, 1):
        written = (tmp_path / "logs" / f"rank_{rank}.log").read_text()
        assert len(re.findall(rf"^\S+ \S+ rank {rank} of 2 begins on ", written, re.MULTILINE)) == 2  # starts
        assert " stopped answering during " in written  # the first one
        assert re.search(r"^\S+ \S+ an evaluation: [\d.]+ s$", written, re.MULTILINE)
        assert re.search(r"^\S+ \S+ episode 240: [\d,]+ env steps/s while playing, .* MiB$", written, re.MULTILINE)
        assert written.endswith(" ended in order\n")
    assert re.search("^ranks +2 over gloo", both[0].out, re.MULTILINE)
    assert re.search(rf"^resumed from +\S*/episode_{stopped} ", both[0].out, re.MULTILINE)
    assert saved(run) == (240, 2)
    for before, after in pairwise(logged(run)):  # one curve without repetition; the matches of both hosts count
        assert before["step"] < after["step"]
        updates = after["train/updates"] - before["train/updates"]
        assert updates > 0
        assert after["train/env_steps"] - before["train/env_steps"] == 2 * MATCHES * TURNS * updates


def test_hosts_that_do_not_meet_are_told_in_one_line(hosts, tmp_path) -> None:
    words = ("--runs_dir", tmp_path / "runs", "--timeout", "5")
    alone = train(hosts, 1, *words, port="29556")
    disagreeing = [train(hosts, 0, *words), train(hosts, 1, *words, nodes=3)]
    for host, nodes, port in ((alone, 2, "29556"), (disagreeing[0], 2, PORT), (disagreeing[1], 3, PORT)):
        assert host.finish() == 2, host
        line = host.err.splitlines()[-1]
        assert line.startswith(f"snakes: the {nodes} nodes did not meet at {hosts[0].address}:{port} within 5 s: is ")
        place = f"{hosts[0].address}:{port} through network interface cable"
        begin = f"snakes: 2 nodes meet at {place}" if host is disagreeing[0] else JOINS.format(nodes, place)
        assert host.err.splitlines()[:-1] == [begin]
    assert not (tmp_path / "runs").exists()
