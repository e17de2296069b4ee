"""--exact_ranks: weights that are equal to the bit on 1, 2 and 4 ranks, also of a run that changes their number."""

import hashlib
import signal
from pathlib import Path

import pytest
import torch
from helpers.resumed import assert_equal, saved
from helpers.training import TINY_ANY, as_ranks, assert_goes_on, here, manifest, the_run

from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.ranks.exits import EXIT_LOST_RANK
from marl.training.regroup import sources_of

SIZES = {"--matches": 32, "--batch_size": 192}  # of the whole run
FLAGS = {
    "ddpg": ["--self_play", "0.5", "--turns", "4", "--updates", "10"],
    "qmix": ["--turns", "4", "--updates", "3"],
    "ppo": ["--messages", "true", "--epochs", "5", "--target_kl", "0.5", "--update_interval", "256"],
    "ppo_lstm": ["--epochs", "5", "--lstm_size", "10", "--update_interval", "64"],  # short sequences: less time
}
EPISODES = 16  # 100 turns
UPDATES = {"ddpg": 200, "qmix": 60, "ppo": 200, "ppo_lstm": 200}  # at least; QMIX shares its updates with DDPG
# Ranks and how each start of a run ends that is stopped and resumed; the last one ends by itself.
STARTS = ((4, ["@2:kill:20"]), (2, ["@1:term:4"]), (1, ["@0:term:4"]), (4, []))
HASTY = [f"@{rank}:patience:1" for rank in range(4)]


def training(algo: str, world: int, runs: Path) -> list[str]:
    """The words of a training with the same sizes of the whole run on any number of ranks."""
    sizes = SIZES | ({"--buffer_size": 24_000} if algo in ("ddpg", "qmix") else {})
    per_rank = [word for name, size in sizes.items() for word in (name, str(size // world))]
    words = [*TINY_ANY, "--algo", algo, "--exact_ranks", "4", "--max_episodes", str(EPISODES), "--keep_last", "0"]
    return [f"@{world}", *words, *per_rank, *FLAGS[algo], "--run_name", "team", "--runs_dir", str(runs)]


def sha256(run: Path, episode: int = EPISODES) -> str:
    """Of the weights at an episode."""
    return hashlib.sha256((run / "checkpoints" / f"episode_{episode}" / "weights.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The folder of all runs, each in a folder with its name."""
    folder = tmp_path_factory.mktemp("exact")
    trainings = {
        f"{algo} {world}": training(algo, world, folder / f"{algo} {world}") for algo in FLAGS for world in (1, 2, 4)
    }
    stopped, starts = folder / "stopped", {}
    for i, (world, faults) in enumerate(STARTS):
        words = training("ddpg", world, stopped)
        if i:
            words = [words[0], "train", "--resume", str(stopped / "snakes_3v3" / "team")]
        starts[f"start {i}"] = [words[0], *HASTY, *faults, *words[1:]]
    chains = [starts, *({name: words} for name, words in trainings.items())]
    for name, found in as_ranks(folder, *chains).items():
        codes = {code for code, _, _ in found}
        stopped_by = {"start 0": {-signal.SIGKILL, EXIT_LOST_RANK}}
        stopped_by |= {start: {128 + signal.SIGTERM} for start in ("start 1", "start 2")}
        assert codes == stopped_by.get(name, {0}), (name, found)
        if name.startswith("start") and name != "start 0":
            assert "bit-exactly" in found[0][1], name
    return folder


@pytest.mark.parametrize("algo", FLAGS)
def test_weights_do_not_depend_on_the_number_of_ranks(runs, algo) -> None:
    found = {world: the_run(runs / f"{algo} {world}") for world in (1, 2, 4)}
    assert {manifest(run, EPISODES)["world_size"] for run in found.values()} == {1, 2, 4}
    assert saved(found[1], EPISODES)["state"]["progress"]["updates"] >= UPDATES[algo]
    assert len({sha256(run) for run in found.values()}) == 1
    assert sha256(found[1]) != sha256(found[1], 8)


def test_a_run_that_changes_its_ranks_is_still_the_same_run(runs) -> None:
    whole, stopped = the_run(runs / "ddpg 4"), the_run(runs / "stopped")
    assert sha256(stopped) == sha256(whole)
    mine, other = saved(stopped, EPISODES), saved(whole, EPISODES)
    for parts in (mine, other):
        for rank in range(4):  # statistics since the last log line, by rank
            del parts[f"rank{rank}"]["learner"]["sums"]
    assert_equal(mine, other)
    assert_goes_on(stopped, EPISODES)


@pytest.mark.parametrize(
    ("rank", "world", "saved_by", "expected"),
    [(0, 1, 4, [0, 1, 2, 3]), (1, 2, 4, [2, 3]), (3, 4, 2, [1]), (2, 4, 2, [1]), (3, 4, 1, [0]), (5, 8, 8, [5])],
)
def test_sources_of_a_rank(rank, world, saved_by, expected) -> None:
    assert list(sources_of(rank, world, saved_by)) == expected


BAD = {
    "three shards": (["--exact_ranks", "3"], "ddp.exact_ranks is 3; allowed: 0 or a power of two"),
    "accumulation": (["--exact_ranks", "--sync_freq", "2"], "ddp.sync_freq is 2; allowed with ddp.exact_ranks: 1"),
    "learning rate": (["--exact_ranks", "--lr_scaling", "linear"], "ddp.lr_scaling is linear; allowed with"),
    "weak": (["--exact_ranks", "--scaling", "weak"], "ddp.scaling is weak; allowed with ddp.exact_ranks: strong"),
    "matches": (
        ["--exact_ranks", "--matches", "24"],
        "matches is 24 per rank; allowed with ddp.exact_ranks 8 on 1 rank: a multiple of 16",
    ),
    "batch": (
        ["--exact_ranks", "4", "--batch_size", "90"],
        "ddpg.batch_size is 90 per rank; allowed with ddp.exact_ranks 4",
    ),
    "threads": (["--exact_ranks", "--threads", "7"], "threads is 7; allowed with ddp.exact_ranks: 1 or "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(tmp_path, name) -> None:
    words, message = BAD[name]
    sizes = ["--matches", "16", "--batch_size", "192"]
    done = here(*TINY_ANY, *sizes, "--runs_dir", tmp_path, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr


def test_ranks_that_do_not_divide_the_shards() -> None:
    with pytest.raises(
        UserError, match=r"3 ranks cannot share the 8 shards of ddp.exact_ranks; allowed: 1, 2, 4, 8 ranks"
    ):
        resolve(read_config(["--exact_ranks"]), torch.device("cpu"), world=3)


@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_automatic_sizes_are_those_of_one_run_on_any_ranks(algo) -> None:
    found = set()
    for world in (1, 2, 4, 8):
        config = resolve(read_config(["--algo", algo, "--exact_ranks"]), torch.device("cpu"), world=world)
        found.add((config.matches * world, getattr(config, algo).batch_size * world))
    assert len(found) == 1
