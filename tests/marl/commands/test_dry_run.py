"""train --dry_run and --print_config: the checks of a training, its chosen values, and no file written."""

import os

import pytest
import yaml
from helpers.command import assert_one_line
from helpers.training import SMOKE, TINY, here

from marl.compute import machine
from marl.config import reader
from marl.config.train_config import read_config


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def rows_of(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.strip().partition(" ") for line in text.splitlines())}


def test_it_names_what_would_be_done(empty):
    done = here("train", "--dry_run", "--config", "smoke", "--seed", "3", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.stdout)
    assert rows["run"] == "runs/snakes_3v3/run1_<time>"
    assert rows["ranks"] == "1, one process"
    assert rows["precision"] == "fp32", "chosen for auto"
    assert rows["threads"] == "measured at the start"
    assert done.stdout.splitlines()[-1].endswith(" train --config smoke --seed 3 --device cpu")


def test_ranks_share_the_automatic_sizes(empty, monkeypatch):
    monkeypatch.setenv("NPROC", "2")
    done = here("train", "--dry_run", "--distributed", "--algo", "ppo", "--device", "cpu", "--body", "8,8")
    rows = rows_of(done.stdout)
    assert rows["ranks"] == "2, over shared memory", done.stderr
    assert rows["matches"] == "256", "half of 512"  # the last row of this name: what was chosen
    assert "matches         256 per rank, 512 in all\n" in done.stdout
    assert "learner         ppo, batch 3,072 per rank, 6,144 in all\n" in done.stdout


def test_the_batch_is_that_of_the_run(empty):
    done = here("train", "--dry_run", "--device", "cpu", "--body", "8,8")
    assert "learner         ddpg, batch 1,032\n" in done.stdout, "a multiple of 24, near 1,024"


def test_a_rank_per_core_unless_a_replay_batch_is_given_per_rank(empty, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(machine, "usable_cores", lambda: 12)
    words = ("train", "--dry_run", "--distributed", "--device", "cpu", "--body", "8,8")
    for more, ranks in (
        ((), "12, over shared memory"),
        (("--batch_size", "96"), "1, one process"),
        (("--backend", "gloo"), "1, one process"),
        (("--algo", "ppo", "--backend", "gloo"), "6, over gloo"),
    ):
        assert rows_of(here(*words, *more).stdout)["ranks"] == ranks, more


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--eval_opponents", "levle3"], ["'levle3'", "did you mean level3?"]),
        (["--resume", "nothing"], ["--resume nothing", "in runs there: nothing; also: last, auto or never"]),
        (["--resume", "last"], ["last: there is no run in runs/snakes_3v3 yet"]),
        (["--runs_dir", "/proc/version/x"], ["--runs_dir /proc/version/x", "/proc/version cannot be written"]),
        (["--buffer_size", "1"], ["buffer_size is 1"]),
        (["--lr", "0.5"], ["--lr is an option of section ppo"]),
        (["--device", "cuda:99"], ["--device cuda:99"]),
    ],
)
def test_mistakes_are_found(empty, words, parts):
    assert_one_line(here("train", "--dry_run", "--config", SMOKE, *words), *parts)


def test_a_name_in_use_is_refused_as_by_a_training(tmp_path):
    words = (*TINY, "--runs_dir", tmp_path, "--run_name", "team")
    run = tmp_path / "snakes_3v3" / "team"
    assert rows_of(here(*words, "--resume", "never", "--dry_run").stdout)["run"] == str(run)
    assert here(*words, "--max_episodes", "4").returncode == 0
    assert rows_of(here(*words, "--dry_run").stdout)["run"] == str(run), "resumed"
    told = f"run {run} exists already; continue it with --resume, or take another --run_name"
    for more in (["--resume", "never"], ["--load_model"]):
        for how in ([], ["--dry_run"], ["--dry_run", "--print_config"]):
            done = here(*words, *more, *how)
            assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"snakes: {told}"), (more, how)


def test_a_checkpoint_without_its_run_begins_a_new_one(tmp_path):
    assert here(*TINY, "--runs_dir", tmp_path, "--run_name", "team", "--max_episodes", "8").returncode == 0
    checkpoint = (tmp_path / "snakes_3v3/team/checkpoints/episode_8").rename(tmp_path / "episode_8")
    done = here(*TINY, "--runs_dir", tmp_path, "--resume", checkpoint, "--dry_run")
    assert rows_of(done.stdout)["run"] == str(tmp_path / "snakes_3v3/run1_<time>"), done.stderr


def test_the_printed_configuration_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--algo", "ppo", "--body", "32,16", "--seed", "9"]
    done = here("train", "--print_config", *words)
    (tmp_path / "again.yaml").write_text(done.stdout)
    assert read_config(["--config", "again.yaml"]) == read_config(words)
    assert yaml.safe_load(done.stdout)["matches"] == "auto"
    resolved = yaml.safe_load(here("train", "--print_config", "--dry_run", *words, "--device", "cpu").stdout)
    assert (resolved["matches"], resolved["network"]["encoder"]) == (512, "tactical")
    assert resolved["threads"] == "auto", "measured when a training starts"
    assert os.listdir() == ["again.yaml"]
    assert reader.to_yaml(read_config(words)) == done.stdout
