"""A run that was stopped and resumed equals the run that was not stopped, to the bit."""

import re
import shutil
import signal
from pathlib import Path

import pytest
from helpers.resumed import assert_equal, in_order, measured, resuming, saved
from helpers.training import TINY as FEW_MATCHES
from helpers.training import as_ranks, assert_goes_on, here, the_run

from marl.metrics.event_file import is_of_machine
from opponents.scheduler import strategies

# A cycle is 0.8 episodes, of many matches: 20 cycles of few turns.
TINY = [*FEW_MATCHES, "--matches", "32", "--turns", "5"]
RANKS = [*TINY, "--matches", "16", "--check_sync", "1"]  # two ranks x 16 are the matches of TINY
EVALUATED = ["--eval_interval", "8", "--eval_matches", "2"]
# Name -> one process (1) or two ranks (2), flags, and the fault that stops the run: see planted.py. Two cycles fill the
# buffer; log lines come every 4 episodes, checkpoints every 8.
ROW = ["--window", "3", "--up", "0.01", "--down", "0"]  # results move the rung at every log line
QMIX = ["--algo", "qmix", "--opponent_difficulty_strategy", "adaptive", *ROW]
MATD3 = ["--algo", "matd3", "--updates", "2", "--critic_form", "joined", *EVALUATED]
MATD3 += ["--opponent_difficulty_strategy", "league", *ROW]
TWO = ["--opponent_difficulty_strategy", "adaptive", *ROW, "--updates", "2", "--sync_freq", "2", *EVALUATED]
# Saves that are killed at their other steps: tests/marl/storage/test_checkpoint.py; rank 0 in the middle of a save:
# tests/marl/ranks/test_faults.py.
STOPS = {
    "term": (1, [], "0:term:14"),
    "qmix_adaptive_killed": (1, QMIX, "0:kill:17"),
    "matd3_league_late": (1, MATD3, "0:late:12"),
    "killed_before_the_first_save": (1, [], "0:kill:6"),
    "killed_at_the_middle_of_the_first_save": (1, [], "0:middle:1"),
    "two_rank_1_killed_at_the_stamp_of_a_save": (2, [], "1:stamp:2"),
    "two_term": (2, [], "1:term:14"),
    "two_late": (2, [], "1:late:13"),
    "two_adaptive_killed": (2, TWO, "1:kill:17"),
    "two_rank_0_killed": (2, [], "0:kill:14"),
}
CODES = {"term": 128 + signal.SIGTERM, "late": 0}  # of the others: -SIGKILL


def of(world: int, words: list[str]) -> list[str]:
    return ["@1", *TINY, *words] if world == 1 else ["@0:patience:1", "@1:patience:1", *RANKS, *words]


def whole(name: str) -> str:
    """The name of the run with the same flags that is not stopped."""
    return "whole_" + next(other for other in STOPS if STOPS[other][:2] == STOPS[name][:2])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of all runs, and the output of each: whole, stopped, and resumed."""
    folder = tmp_path_factory.mktemp("stopped")
    wholes, chains = {}, []
    for name, (world, words, fault) in reversed(STOPS.items()):  # two ranks first: they wait for timeouts
        named = ["--run_name", "team", "--runs_dir"]
        wholes[whole(name)] = {whole(name): of(world, [*words, *named, str(folder / whole(name))])}
        run = folder / name / "stopped" / "snakes_3v3" / "team"
        stop = [f"@{fault}", *words, *named, str(folder / name / "stopped"), "--max_minutes", "60"]
        chains.append(
            {
                f"{name}, stopped": of(world, stop),
                f"{name}, resumed": resuming(world, run, "--max_minutes", "0"),
            }
        )
    return folder, as_ranks(folder, *chains, *wholes.values())


def events_of(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves that TensorBoard shows; times left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run))
    events.Reload()
    tags = [tag for tag in events.Tags()["scalars"] if not is_of_machine(tag)]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


@pytest.mark.parametrize("name", STOPS)
def test_a_run_that_was_stopped_and_resumed_equals_the_run_that_was_not_stopped(stopped, name) -> None:
    folder, done = stopped
    world, _, fault = STOPS[name]
    rank, how, _ = fault.split(":")
    in_order(done, whole(name))
    assert done[f"{name}, stopped"][int(rank)][0] == CODES.get(how, -signal.SIGKILL), done[f"{name}, stopped"]
    untouched, resumed = the_run(folder / whole(name)), the_run(folder / name / "stopped")
    told = in_order(done, f"{name}, resumed")
    found = re.search(r"resumed from +.+ \(episode (\d+)\), bit-exactly", told)
    assert found or "first_save" in name, told
    # The whole last checkpoint: weights, optimisers, counters, schedule, matches and buffers of every rank.
    assert saved(resumed, 16).keys() == {"state", "weights", *(f"rank{rank}" for rank in range(world))}
    mine, other = saved(resumed, 16), saved(untouched, 16)
    if how == "late":  # it has one evaluation more, which may be the best
        for counters in ("progress", "logged"):
            assert mine["state"][counters].pop("best") >= other["state"][counters].pop("best")
    assert_equal(mine, other)
    # The metrics. A run that ends by its time limit has one more log line and evaluation, at that episode.
    mine, other = measured(resumed), measured(untouched)
    assert {key: mine[key] for key in other} == other
    more = {step for step, _ in mine.keys() - other.keys()}
    assert more == ({int(found[1])} if how == "late" else set())
    # Some curves are also there by env steps.
    more |= {int(mine[key].get("train/env_steps", key[0])) for key in mine.keys() - other.keys()}
    mine, other = events_of(resumed), events_of(untouched)
    assert {tag: [at for at in curve if at[0] not in more] for tag, curve in mine.items()} == {
        tag: [at for at in curve if at[0] not in more] for tag, curve in other.items()
    }
    assert_goes_on(resumed, 16)


def test_the_strategies_by_results_did_move(stopped) -> None:
    """Otherwise the tests above would not show that the results of a strategy are restored."""
    for name in ("qmix_adaptive_killed", "two_adaptive_killed", "matd3_league_late"):
        state = saved(the_run(stopped[0] / whole(name)), 16)["state"]["schedule"]
        assert state["rung"] > 0, name
        assert state["results"], name


def test_a_stop_says_how_to_go_on_and_a_lost_rank_too(stopped) -> None:
    _, done = stopped
    assert re.search(r"resume with: \S+ -m marl train --resume ", done["two_term, stopped"][0][1])
    for name, lost, other in (("two_adaptive_killed", 1, 0), ("two_rank_0_killed", 0, 1)):
        code, _, err = done[f"{name}, stopped"][other]
        assert code == 3, err
        assert err.startswith(f"snakes: rank {lost} of 2 stopped answering during")
        assert err.endswith("resume it with --resume and the run's folder\n")


# Those by results are among STOPS.
@pytest.mark.parametrize("strategy", [name for name in strategies() if name not in ("adaptive", "league")])
def test_every_strategy_goes_on_to_the_bit(strategy, tmp_path) -> None:
    words = [*TINY, "--opponent_difficulty_strategy", strategy, *ROW, "--enable_opponent_evasion"]
    words += ["--opponent_evasion_start_episode", "10", "--run_name", "team", "--keep_last", "0"]
    assert here(*words, "--runs_dir", tmp_path / "whole").returncode == 0
    whole = the_run(tmp_path / "whole")
    run = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "episode_16")
    (run / "checkpoints" / "last").write_text("episode_8\n")
    done = here("train", "--resume", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(episode 8), bit-exactly" in done.stdout
    assert_equal(saved(run, 16), saved(whole, 16))
    assert measured(run) == measured(whole)
