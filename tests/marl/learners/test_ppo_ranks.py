"""PPO in two real gloo ranks: one team that learns, the same as from one rank with all the matches; and `train` with
it, stopped and resumed."""

import re
import signal
from types import SimpleNamespace

import pytest
import torch
from helpers import ppo_as_ranks
from helpers.ppo_as_ranks import CASES, MATCHES
from helpers.resumed import assert_equal, measured, saved
from helpers.training import TINY_ANY, as_ranks, as_two_ranks, assert_goes_on, logged, manifest, the_run

from marl.config.learner_configs import PpoConfig
from marl.config.sections import NetworkConfig
from marl.config.train_config import TrainConfig
from marl.learners.factory import make_learner
from marl.learners.ppo import Ppo
from marl.learners.precision import Precision
from marl.ranks.process_group import Solo
from marl.rollout.assignment import MatchAssignment
from marl.storage.saver import on_host

CPU = torch.device("cpu")
SKIPPED = 1 + Ppo.LOGGED.index("updates/skipped")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What the two ranks found, case by case."""
    return as_two_ranks(ppo_as_ranks.all_cases, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def alone():
    """The same cases of one rank with all the matches, computed when they are asked for."""
    found, threads = {}, torch.get_num_threads()

    def ask(name: str, device: torch.device = CPU) -> dict:
        if (name, device) not in found:
            torch.set_num_threads(1)
            found[name, device] = on_host(CASES[name](Solo(device)))
            torch.set_num_threads(threads)
        return found[name, device]

    return ask


# --- one team of two ranks


@pytest.mark.parametrize("name", ["union", "union_lstm"])
def test_two_ranks_play_the_matches_of_one_with_twice_as_many(ranks, alone, name) -> None:
    one, two = alone(name), [found[name] for found in ranks]
    for what in ("obs", "actions", "rewards", "terminated"):
        together = torch.cat([found[what] for found in two], 1)
        assert together.shape[1] == MATCHES
        assert torch.equal(together, one[what]), what
    assert one["terminated"].any()
    assert one["rewards"].any()


@pytest.mark.parametrize("name", ["union", "union_lstm"])
def test_a_step_of_two_ranks_is_that_of_one_with_twice_the_matches(ranks, alone, name) -> None:
    assert_same_step(alone(name), [found[name] for found in ranks])


@pytest.mark.needs_cuda
def test_a_step_of_two_ranks_that_share_a_gpu_is_that_of_one(tmp_path, alone) -> None:
    ranks = as_two_ranks(ppo_as_ranks.union_on_gpu, tmp_path)
    assert_same_step(alone("union", torch.device("cuda", 0)), [found["union"] for found in ranks])


def assert_same_step(one: dict, two: list[dict]) -> None:
    for what in ("advantages", "returns", "log_probs"):
        torch.testing.assert_close(torch.cat([f[what] for f in two], 1), one[what], rtol=1e-4, atol=1e-5)
    for found in two:
        torch.testing.assert_close(found["gradients"], one["gradients"], rtol=1e-3, atol=1e-6)
        for weight, tensor in found["weights"].items():
            torch.testing.assert_close(tensor, one["weights"][weight], rtol=0, atol=1e-4)
            assert torch.equal(tensor, two[0]["weights"][weight])
    # Each rank logs its own part, and the trainer adds them up.
    torch.testing.assert_close(two[0]["logged"] + two[1]["logged"], 2 * one["logged"], rtol=1e-3, atol=1e-5)
    assert not torch.equal(two[0]["logged"], two[1]["logged"])


def test_advantages_are_measured_over_all_ranks(ranks, alone) -> None:
    """Rank 1 is paid far better: both compare with what both were paid."""
    one, two = alone("rewards"), [found["rewards"] for found in ranks]
    of_both = torch.cat([found["advantages"] for found in two], 1)
    of_each = [found["advantages"] for found in two]
    assert of_each[1].mean() > of_each[0].mean() + 1, "measured in deviations of both"
    assert of_both.mean().item() == pytest.approx(0, abs=1e-5)
    assert of_both.std(correction=0).item() == pytest.approx(1, rel=1e-4)
    torch.testing.assert_close(of_both, one["advantages"], rtol=1e-4, atol=1e-5)
    for weight, tensor in one["weights"].items():
        torch.testing.assert_close(two[0]["weights"][weight], tensor, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["rounds", "rounds_lstm", "rounds_sync2"])
def test_ranks_hold_the_same_weights_after_every_step(ranks, name) -> None:
    two = [found[name] for found in ranks]
    batches = len(two[0]["idx"])
    assert batches == len(two[1]["idx"]) == 2 * 2 * 2  # rounds, epochs, batches
    assert len(two[0]["weights"]) == batches // (2 if name == "rounds_sync2" else 1)
    assert torch.equal(two[0]["weights"], two[1]["weights"])
    assert two[0]["weights"].unique(dim=0).shape == two[0]["weights"].shape, "every step has changed them"
    pairs = zip(two[0]["idx"], two[1]["idx"], strict=True)
    assert any(not torch.equal(mine, its) for mine, its in pairs), "each rank shuffles in its own order"


def test_the_kl_stop_is_agreed_upon(ranks) -> None:
    """By the mean over the ranks: one of them alone over the limit ends the round of both, or of none."""
    for name, steps in (("kl_over", 2), ("kl_mean_below", 8)):
        two = [found[name] for found in ranks]
        assert [found["batches"] for found in two] == [8] * 2
        assert max(two[0]["kl"]) < 0.1
        assert torch.equal(two[0]["weights"], two[1]["weights"])
        moved = [not torch.equal(a, b) for a, b in zip(two[0]["weights"], two[0]["weights"][1:], strict=False)]
        assert moved == [True] * (steps - 1) + [False] * (8 - steps), "the step at which it shows is not made"


def test_a_nan_on_one_rank_is_skipped_by_both(ranks) -> None:
    two = [found["spoilt"] for found in ranks]
    assert torch.equal(two[0]["weights"], two[1]["weights"])
    assert two[0]["weights"].isfinite().all()
    assert len(two[0]["weights"]) == 8
    stayed = [torch.equal(a, b) for a, b in zip(two[0]["weights"], two[0]["weights"][1:], strict=False)]
    assert sum(stayed) <= 1
    for found in two:
        first, second = found["logged"]
        assert first.isfinite().all()
        assert (first[SKIPPED], second[SKIPPED]) == (1, 0)


# --- the update interval


@pytest.mark.parametrize(
    ("interval", "matches", "world", "turns"),
    [
        (160, 8, 1, 20),
        (160, 8, 2, 10),
        (160, 4, 2, 20),
        (160, 16, 1, 10),
        (160, 8, 4, 5),
        (16, 8, 2, 1),
        (90, 8, 1, 11),
    ],
)
def test_the_update_interval_is_shared_out_to_all_ranks(interval, matches, world, turns) -> None:
    network = NetworkConfig(encoder="features", body=(8,))
    ppo = PpoConfig(update_interval=interval, batch_size=10**6, epochs=1, lr=2e-3)
    config = TrainConfig(algo="ppo", precision="fp32", matches=matches, network=network, ppo=ppo)
    group = SimpleNamespace(rank=0, world=world, device=CPU, backend=None, overlaps=False, wrap=lambda module: module)
    learner = make_learner(config, MatchAssignment(matches), group, Precision("fp32", CPU))
    assert learner.turns == learner.buffer.turns == turns


# --- stopped and resumed. A cycle is 0.8 episodes, of 32 matches and 5 turns, as in test_resume.py

SMALL = ["--matches", "32", "--update_interval", "160", "--batch_size", "240", "--epochs", "2"]
# Of a run that ends by the clock: rates that follow from it would not be those of a run without one.
STEADY = ["--lr_end", "1", "--entropy_end", "0.005", "--entropy", "0.005"]
PPO = [*TINY_ANY, *SMALL]
STOPS = {
    "term": (1, ["--algo", "ppo", "--target_kl", "0.02"], ["@0:term:14"]),
    "lstm_late": (1, ["--algo", "ppo_lstm", "--lstm_size", "8", *STEADY], ["@0:late:13", "--max_minutes", "60"]),
    "two_term": (2, ["--algo", "mappo", "--matches", "16", "--check_sync", "1", "--sync_freq", "2"], ["@1:term:14"]),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of all runs, and what each of them printed: whole, stopped, resumed; and one run in two ranks, then
    one, then two."""
    folder = tmp_path_factory.mktemp("stopped")
    wholes, chains = [], {}
    for name, (world, words, stop) in STOPS.items():
        how, at = ["@1"][: world == 1], ["--run_name", "team", "--keep_last", "0", "--runs_dir"]
        wholes.append({f"{name}, whole": [*how, *PPO, *words, *at, str(folder / name / "whole")]})
        faults = [word for word in stop if word.startswith("@")]
        flags = [word for word in stop if not word.startswith("@")]
        run = folder / name / "stopped" / "snakes_3v3" / "team"
        chains[name] = {
            f"{name}, stopped": [*how, *faults, *PPO, *words, *at, str(folder / name / "stopped"), *flags],
            f"{name}, resumed": [*how, "train", "--resume", str(run), "--max_minutes", "0"],
        }
    run = folder / "two_term" / "stopped" / "snakes_3v3" / "team"
    chains["two_term"]["one"] = ["@1", "train", "--resume", str(run), "--max_episodes", "24"]
    chains["two_term"]["two again"] = ["train", "--resume", str(run), "--max_episodes", "32"]
    done = as_ranks(folder, *reversed(chains.values()), *wholes)
    for name, found in done.items():
        for code, _, err in found:
            if name in ("term, stopped", "two_term, stopped"):
                assert code == 128 + signal.SIGTERM, (name, err)
            else:
                assert (code, err) == (0, ""), (name, err)
    return folder, {name: found[0][1] for name, found in done.items()}


@pytest.mark.parametrize("name", STOPS)
def test_a_run_stopped_and_resumed_equals_one_that_was_never_stopped(stopped, name) -> None:
    folder, printed = stopped
    whole, resumed = the_run(folder / name / "whole"), the_run(folder / name / "stopped")
    world = STOPS[name][0]
    from_episode = re.search(r"resumed from +.+ \(episode (\d+)\), bit-exactly", printed[f"{name}, resumed"])
    assert 8 <= int(from_episode[1]) < 16
    mine, other = saved(resumed, 16), saved(whole, 16)
    assert mine.keys() == {"state", "weights", *(f"rank{rank}" for rank in range(world))}
    assert ("memory" in mine["rank0"]["learner"]) == (name == "lstm_late")
    if name == "lstm_late":  # with one evaluation more, which may have been the best
        for counters in ("progress", "logged"):
            assert mine["state"][counters].pop("best") >= other["state"][counters].pop("best")
    assert_equal(mine, other)
    mine, other = measured(resumed), measured(whole)
    assert {key: mine[key] for key in other} == other
    assert_goes_on(whole, 16)
    lines = logged(whole)
    assert len({line["losses/policy"] for line in lines}) == len(lines) == 4


def test_a_run_goes_on_with_other_ranks(stopped) -> None:
    """With as many matches in each of them, so that one rank plays twice the turns between updates."""
    folder, printed = stopped
    run = the_run(folder / "two_term" / "stopped")
    for name in ("one", "two again"):
        assert "bit-exactly" not in printed[name]
        assert re.search(r"\(episode \d+\), with new matches", printed[name])
    assert [manifest(run, episode)["world_size"] for episode in (16, 24, 32)] == [2, 1, 2]
    parts = {episode: saved(run, episode) for episode in (16, 24, 32)}
    assert [part["rank0"]["fits"]["turns"] for part in parts.values()] == [5, 10, 5]
    counters = [part["state"]["progress"] for part in parts.values()]
    assert [each["episodes"] for each in counters] == [16, 24, 32]
    for each in counters:
        assert each["env_steps"] % 160 == 0, "a round is 160 turns of matches of all ranks"
        assert each["updates"] == each["env_steps"] // 160 * 4, "two epochs of two batches on each rank"
    assert_goes_on(run, 32)
