"""train --dry_run and --print_config: the checks of a training, its chosen values, and no file written."""

import os

import pytest
import yaml
from helpers.command import assert_one_line
from helpers.training import SMOKE, here

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
    assert rows["ranks"] == "2, over gloo and shared memory", done.stderr
    assert rows["matches"] == "256", "half of 512"


def test_a_rank_per_core_unless_a_replay_batch_is_given_per_rank(empty, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(machine, "usable_cores", lambda: 12)
    words = ("train", "--dry_run", "--distributed", "--device", "cpu", "--body", "8,8")
    for more, ranks in (
        ((), "12, over gloo and shared memory"),
        (("--exact_ranks", "8"), "8, over gloo and shared memory"),
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
