"""snakes bench train: what it measures, that the split is of the real loop, and where its flags go."""

import json
import time

import pytest
import torch
from helpers.command import assert_one_line
from helpers.short_matches import staggered_at_once
from helpers.training import alone, here

from marl.bench import command, training
from marl.cli import main as cli

SMALL_ANY = ["--device", "cpu", "--matches", "16", "--body", "8", "--batch_size", "24"]
SMALL = [*SMALL_ANY, "--turns", "2", "--updates", "2", "--buffer_size", "960", "--warmup_turns", "8"]


class FakeEvent:
    """A CUDA event whose GPU is always done at once."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return 1e3 * (other.at - self.at)


@pytest.fixture(autouse=True)
def process_as_before(monkeypatch):
    """A bench is meant to have its process for itself."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled)
    monkeypatch.setattr(training, "set_nccl_defaults", dict)
    with staggered_at_once():
        yield


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda ticks: None)


def bench_of(*words, against=None):
    return training.TrainBench([*(SMALL_ANY if "--algo" in words else SMALL), *words], against, 0.02)


def test_json():
    result = alone("bench", "train", "--json", "--seconds", "0.02", *SMALL, "--encoder=planes")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["machine"]["cpu"]["cores"] >= 1
    config = report["config"]
    assert (config["matches"], config["device"], config["ddpg"]["turns"]) == (16, "cpu", 2)
    assert (config["network"]["encoder"], config["network"]["body"]) == ("planes", [8])
    assert config["precision"] == "fp32"  # was auto: the configuration is the resolved one
    assert report["opponents"] == {"level2": 1.0}
    rates = report["rates"]
    cycles = 1 / rates["seconds_per_cycle"]
    assert rates["env_steps_per_second"] == pytest.approx(cycles * 2 * 16)
    assert rates["snake_transitions_per_second"] == pytest.approx(cycles * 2 * 16 * 3)
    assert rates["updates_per_second"] == pytest.approx(cycles * 2)
    assert rates["transitions_trained_per_second"] == pytest.approx(cycles * 2 * report["transitions_per_batch"])


def test_table_names_machine_opponents_and_every_part(capsys):
    assert cli.main(["bench", "--seconds", "0.02", "--against", "level0,level1", "train", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("CPU: ")
    assert "against level0 50%, level1 50%" in printed
    rows = [line.split()[0] for line in printed.splitlines() if "%" in line and "against" not in line]
    assert rows == [*training.PARTS]


# Both sides learn in a part of the matches, past selves play in another.
LEAGUE = ["--opponent_difficulty_strategy", "league", "--self_play", "0.25"]
PPO = ["--algo", "ppo", "--update_interval", "32", "--epochs", "1", "--batch_size", "40", *LEAGUE]


@pytest.mark.parametrize("watch", ["clock", "events"])
@pytest.mark.parametrize("words", [[], PPO], ids=["ddpg", "ppo"])
def test_shares_add_up_to_the_whole(watch, words, without_gpu, monkeypatch):
    if watch == "events":
        monkeypatch.setattr(training, "_Clock", lambda: training._Events(torch.device("cpu"), True))
    report = bench_of(*words).report()
    split = report["split"]
    assert (report["turns"], report["updates"]) == (2, 3 if words else 2)  # 2 turns of 20 teams, of 3 snakes
    parts = split["parts"]
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
    assert sum(part["us_per_cycle"] for part in parts.values()) == pytest.approx(1e6 * split["seconds_per_cycle"])
    assert all(part["share"] > 0 for part in parts.values())
    for name, part in parts.items():
        assert (part["us_per_turn"] > 0) == (name in ("arena", "encode", "opponents", "policy", "buffer"))
        assert (part["us_per_update"] > 0) == (name in ("update", *(["buffer"] if not words else [])))
        if name != "rest":
            per_cycle = 2 * part["us_per_turn"] + report["updates"] * part["us_per_update"]
            assert part["us_per_cycle"] == pytest.approx(per_cycle)


@pytest.mark.parametrize(
    ("watch", "words"),
    [("clock", []), ("events", LEAGUE), ("events", PPO), ("clock", [*PPO, "--algo", "ppo_lstm", "--lstm_size", "8"])],
    ids=["ddpg-clock", "ddpg-events", "ppo-events", "ppo_lstm-clock"],
)
def test_behind_a_watch_the_trainer_plays_and_learns_the_same(watch, words, without_gpu, monkeypatch):
    """Also shows that parts are called with the same tensors every time: _Events keeps those of the first call."""
    plain, watched = bench_of(*words), bench_of(*words)
    for each in (plain, watched):
        each._warm_up()
    if watch == "events":
        monkeypatch.setattr(watched, "_graphs", True)
        monkeypatch.setattr(watched._state.rollout, "_may_be_met", lambda i: True)  # as on a GPU
    watched._instrument(training._Events(torch.device("cpu"), True) if watch == "events" else training._Clock())
    for _ in range(6):
        plain._trainer.cycle()
        watched._trainer.cycle()
    plain, watched = plain._state, watched._state
    weights = dict(watched.learner.named_weights())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in plain.learner.named_weights())
    assert torch.equal(plain.buffer.obs, watched.buffer.obs)
    tally = plain.rollout.pop_results().tally
    assert tally.sum() > 0
    assert torch.equal(tally, watched.rollout.pop_results().tally)


def test_gradients_added_up_over_batches_are_one_piece():
    parts = bench_of("--sync_freq", "2").report()["split"]["parts"]
    assert parts["update"]["us_per_update"] > 0


def test_measured_is_a_full_buffer_and_nobody_but_the_mix():
    each = bench_of(against=["level1", "level3"])
    each._warm_up()
    state = each._state
    assert state.buffer.counts[0] >= state.buffer.turns
    assert state.buffer.obs.flatten(1).any(1).all()
    for side in (0, 1):
        assert {state.rollout.opponents[i] for i in state.rollout.opponent_id[side::2]} == {"level1", "level3"}


@pytest.mark.parametrize(
    ("words", "own", "others"),
    [
        ("arena --matches 8", "arena --matches 8", ""),
        ("train --matches 8 --json", "train --json", "--matches 8"),
        ("--seconds 2 train --tau=0.1", "--seconds 2 train", "--tau=0.1"),
        ("train --seconds=2 --run-name train", "train --seconds=2", "--run-name train"),
        ("train --seconds", "train --seconds", ""),
    ],
)
def test_words_that_go_on_to_the_configuration(words, own, others):
    assert command.set_aside(words.split()) == (own.split(), others.split())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["train", "--frobnicate", "1"], ["unknown flag --frobnicate"]),
        (["train", "--matches", "1,64"], ["--matches", "'1,64'"]),
        (["train", "--matches", "7"], ["matches is 7", "even"]),
        (["train", "--body", "wide"], ["--body", "'wide'"]),
        (["train", "--seconds", "0"], ["--seconds", "'0'"]),
        (["train", "extra"], ["'extra'"]),
        (["train", "--device", "tpu"], ["--device tpu"]),
        (["train", "--against", "evasive"], ["--against evasive", "level4"]),
        (["train", "--against", "level1,"], ["--against", "'level1,'"]),
        (["arena", "--against", "level1"], ["--against", "bench train"]),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_one_line(here("bench", *words), *parts)


def test_a_bad_flag_of_training_is_one_line():
    assert_one_line(alone("bench", "train", "--json", "--gama", "1"), "--gama", "did you mean --gamma?")
