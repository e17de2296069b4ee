"""Nodes that join and leave during a run; and how restarted ranks find their run."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from helpers.ports import free_port
from helpers.processes import wait_until
from helpers.training import (
    LIMIT,
    TINY,
    Forked,
    assert_goes_on,
    forked,
    logged,
    manifest,
    needs_proc,
    ranks_of,
    the_run,
)

from marl.storage import relaunch, run_folder
from marl.storage.relaunch import LaunchRecord

FAST = "0:elastic:1 0:patience:1 1:patience:1"


def world_sizes(run: Path) -> list[int]:
    """The number of ranks of each start of the run."""
    about = run_folder.read_run(run)
    return [start["world_size"] for start in (*about.get("earlier", []), about) if start]


@needs_proc
def test_a_node_joins_and_is_lost_and_one_run_goes_on(tmp_path) -> None:
    words = [*TINY, "--runs_dir", tmp_path, "--distributed", "--max_episodes", "1000000", "--max_restarts", "3"]
    place = {"NNODES": "1:2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    place |= {"NPROC": "1", "PLANTED": FAST}

    def reached(sizes: list[int], process: Forked) -> Path:
        """The run, once it has been started with these numbers of ranks and has saved since."""

        def there() -> bool:
            assert process.poll() is None, process.communicate()
            runs = list(tmp_path.glob("snakes_3v3/*"))
            return bool(runs) and world_sizes(runs[0]) == sizes and newest(runs[0]).get("world_size") == sizes[-1]

        wait_until(there, LIMIT, f"the run has gone on with {sizes} ranks")
        return the_run(tmp_path)

    with forked(words, NODE_RANK="0", **place) as first:
        reached([1], first)
        with forked(words, NODE_RANK="1", **place) as second:
            reached([1, 2], first)
            (lost,) = ranks_of(second.pid).values()
            second.kill()
            os.kill(lost, signal.SIGKILL)
            run = reached([1, 2, 1], first)
        first.terminate()
        printed, told = first.communicate(LIMIT)
    assert first.returncode == 128 + signal.SIGTERM
    assert re.fullmatch(r"run1_\d{8}_\d{6}", run.name)  # the run has no name of its own
    last = newest(run)
    assert last["world_size"] == 1
    assert_goes_on(run, logged(run)[-1]["step"])
    # Each start goes on from the last checkpoint; after a node has joined, that contains everything.
    assert printed.count("resumed from ") == 2
    sizes = re.findall(r"batch +(.*) snake transitions", printed)
    assert sizes == ["96", "96 x 2 ranks = 192", "96"]
    (line, *_) = [line for line in told.splitlines() if "stopped answering" in line]
    assert "rank 1 of 2" in line


def newest(run: Path) -> dict:
    try:
        return manifest(run, int((run / "checkpoints" / "last").read_text().strip().removeprefix("episode_")))
    except OSError:  # no checkpoint yet, or a newer one has just replaced it
        return {}


# --- the run of a launch


class Group:
    """The collectives of relaunch.find, on rank 0."""

    def __init__(self, *others: LaunchRecord | None) -> None:
        self._others = others

    def gather(self, value: LaunchRecord | None) -> list[LaunchRecord | None]:
        return [value, *self._others]

    def broadcast(self, value: LaunchRecord | None) -> LaunchRecord | None:
        return value


@pytest.fixture
def launched(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_RANK", "0")


def a_run(folder: Path, launchers: list[str], saves: int = 0, source: str | None = None) -> Path:
    folder.mkdir(parents=True)
    launch = {"launchers": launchers, "saves": saves, "source": source}
    (folder / "run.json").write_text(json.dumps({"launch": launch}))
    return folder


def test_a_rank_finds_the_run_of_its_launcher_and_no_other(launched, tmp_path) -> None:
    mine, (host, boot, pid, since) = relaunch.launcher(), relaunch.launcher().split(" ")
    strangers = [f"other {boot} {pid} {since}", f"{host} {boot} {pid}0 {since}", f"{host} {boot} {pid} {since}0"]
    (tmp_path / "empty").mkdir()
    others = [tmp_path / "empty", a_run(tmp_path / "other", strangers)]
    assert relaunch.find(others, Group(None)) is None
    run = a_run(tmp_path / "run", [*strangers, mine], 3, "runs/before")
    assert relaunch.find([*others, run], Group(None)) == LaunchRecord(run, 3, Path("runs/before"))


def test_a_rank_that_has_just_come_is_told_by_another(launched, tmp_path) -> None:
    known = LaunchRecord(tmp_path / "run", 0, None, True)
    assert relaunch.find([], Group(None, known)) == known


def test_without_a_launcher_nothing_is_looked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert relaunch.launcher() is None
    assert relaunch.find([a_run(tmp_path / "run", ["None"])], Group(None)) is None
    assert relaunch.describe(tmp_path, None, None, [None, None]) is None


def test_a_run_is_described_as_at_its_first_start(tmp_path) -> None:
    run, again = tmp_path / "run", LaunchRecord(tmp_path / "run", 3, Path("runs/before"), True)
    assert relaunch.describe(run, run, again, ["b", "a", "b", None]) == {
        "launchers": ["a", "b"],
        "saves": 3,
        "source": "runs/before",
    }
    assert relaunch.describe(run, None, None, ["a"]) == {"launchers": ["a"], "saves": 0, "source": None}
