"""--fault_tolerant: ranks are killed in training, saves, evaluations and starts; the run ends as its twin."""

import os
import re
import signal
from pathlib import Path

import pytest
from helpers.processes import wait_until
from helpers.resumed import measured
from helpers.training import LIMIT, RANKS, TINY, finish, forked, here, needs_proc, ranks_of, the_run

from marl.storage.checkpoint import WEIGHTS
from marl.storage.run_folder import read_run

pytestmark = needs_proc
EPISODES = 48
# The same sizes of the whole run on any number of ranks, so that one twin is enough. A cycle is about one episode.
WORDS = [*TINY, "--exact_ranks", "4", "--max_episodes", str(EPISODES), "--eval_interval", "12", "--keep_last", "0"]
SIZES = {"--matches": 16, "--batch_size": 192, "--buffer_size": 24_000}
# Ranks -> kills. Ranks wait for each checkpoint, so that every kill comes at the same place of any run.
KILLS = {
    2: "1:kill:6 0:restore:1 0:middle:1 1:evaluation:1 1:part:2 0:kill:9",
    4: "2:kill:9 3:restore:1 0:kill:5",
}


def train(ranks: int, runs: Path, kills: str = "") -> tuple[str, Path]:
    """What the launcher has told, and the run."""
    sizes = [word for name, size in SIZES.items() for word in (name, str(size // ranks))]
    words = [*WORDS, *sizes, "--runs_dir", str(runs), "--fault_tolerant", "--max_restarts", "9"]
    faults = [f"{rank}:{what}" for rank in range(ranks) for what in ("snapshots:0", "saves:0")]
    faults += [f"{kill}:once" for kill in kills.split()]
    with forked(words, NPROC=str(ranks), PLANTED=" ".join(faults), MARKS=str(runs)) as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    return done.stderr, next((runs / "snakes_3v3").iterdir())


@pytest.fixture(scope="module")
def twin(tmp_path_factory) -> Path:
    """The same run on one rank, without any kill."""
    told, run = train(1, tmp_path_factory.mktemp("twin"))
    assert told == ""
    return run


@pytest.mark.parametrize("ranks", KILLS)
def test_a_run_with_lost_ranks_ends_as_its_undisturbed_twin(tmp_path, twin, ranks) -> None:
    kills = len(KILLS[ranks].split())
    told, run = train(ranks, tmp_path, KILLS[ranks])
    assert len(list(tmp_path.glob("*-once"))) == kills
    goes_on = rf"snakes: rank \d was killed by SIGKILL; {ranks} ranks go on from update \d+ \(\d+ updates? repeated\), "
    lines = told.splitlines()
    assert kills // 2 < len(lines) <= kills  # two may be lost at the same moment
    assert all(re.match(goes_on, line) or line.endswith(" before training went on") for line in lines), told
    weights = [(each / "checkpoints" / f"episode_{EPISODES}" / WEIGHTS).read_bytes() for each in (run, twin)]
    assert weights[0] == weights[1]
    assert measured(run).keys() == measured(twin).keys()  # nothing is there twice
    assert all(re.fullmatch(r"episode_\d+|last|best", path.name) for path in (run / "checkpoints").iterdir())
    assert read_run(run)["recoveries"] > kills // 2


def test_a_rank_that_is_lost_again_at_the_same_place_ends_the_run(tmp_path) -> None:
    variables = {"NPROC": "2", "PLANTED": "1:kill:3"}
    with forked([*RANKS, "--runs_dir", tmp_path, "--fault_tolerant", "--max_restarts", "2"], **variables) as process:
        done = finish(process)
    assert done.returncode == 128 + signal.SIGKILL
    *lost, last = done.stderr.splitlines()
    assert [line.startswith("snakes: rank 1 was killed by SIGKILL") for line in lost] == [True] * 2
    assert last.startswith("snakes: rank 1 was killed by SIGKILL (out of memory?); resume it with --resume")


def test_a_mistake_is_not_repeated(tmp_path) -> None:
    words = [*RANKS, "--runs_dir", tmp_path, "--eval_opponents", "nobody", "--fault_tolerant"]
    with forked(words, NPROC="2") as process:
        done = finish(process)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_signal_saves_and_no_rank_outlives_its_launcher(tmp_path) -> None:
    words = [*RANKS, "--max_episodes", "1000000", "--runs_dir", tmp_path, "--fault_tolerant"]
    with forked(words, NPROC="2") as process:
        wait_until(lambda: list(tmp_path.glob("*/*/checkpoints/last")), LIMIT, "a checkpoint")
        process.terminate()
        done = finish(process)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "snakes: stopped by SIGTERM\n")
    assert "stopped by a signal at episode" in done.stdout
    with forked([*words, "--resume", str(the_run(tmp_path))], NPROC="2") as process:
        wait_until(lambda: len(ranks_of(process.pid)) == 2, LIMIT, "two ranks")
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 1  # it forks: no other thread would come along
        pids = ranks_of(process.pid).values()
        process.kill()
        wait_until(lambda: not any(_lives(pid) for pid in pids), LIMIT, "the end of the ranks")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_several_machines_are_refused(tmp_path) -> None:
    nodes = ["--nnodes", "2", "--node_rank", "0", "--master_addr", "10.0.0.1"]
    done = here(*RANKS, "--runs_dir", tmp_path, "--fault_tolerant", *nodes)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--fault_tolerant is for one machine, not for 2; use --max_restarts there" in done.stderr
    assert not os.listdir(tmp_path)
