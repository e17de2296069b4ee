"""A run that was stopped and resumed equals the run that was not stopped, to the bit; and cases where it cannot."""

import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.planted import STAGES, STAGES_OF_A_PART
from helpers.resumed import assert_equal, measured, saved
from helpers.training import TINY, as_ranks, assert_goes_on, files_of, here, logged, manifest, the_run

from marl.commands import train
from marl.invocation import command
from marl.training.nonfinite import SKIPS_IN_A_ROW
from opponents.scheduler import STRATEGIES

EVALUATED = ["--eval_interval", "4", "--eval_matches", "4"]
RANKS = [*TINY, "--matches", "4", "--check_sync", "1"]
# Name -> one process (1) or two ranks (2), flags, and the fault that stops the run: see planted.py. A cycle is 0.8
# episodes; log lines come every 4, checkpoints every 8.
ROW = ["--window", "3", "--up", "0.01", "--down", "0"]  # results move the rung at every log line
STOPS = {
    "term": (1, EVALUATED, "0:term:14"),
    "adaptive_killed": (1, ["--opponent_difficulty_strategy", "adaptive", *ROW], "0:kill:17"),
    "sync_freq_late": (1, ["--updates", "4", "--sync_freq", "2", *EVALUATED], "0:late:13"),
    "twin_killed_before_the_first_save": (1, ["--twin", "--critic", "team", "--critic_form", "joined"], "0:kill:6"),
    "league_late": (1, ["--opponent_difficulty_strategy", "league", *ROW], "0:late:12"),
    **{f"killed_at_the_{stage}_of_a_save": (1, [], f"0:{stage}:2") for stage in STAGES},
    **{f"killed_at_the_{stage}_of_the_first_save": (1, [], f"0:{stage}:1") for stage in STAGES},
    "two_rank_0_killed_at_the_middle_of_a_save": (2, [], "0:middle:2"),
    **{f"two_rank_1_killed_at_the_{stage}_of_a_save": (2, [], f"1:{stage}:2") for stage in STAGES_OF_A_PART},
    "two_term": (2, [], "1:term:14"),
    "two_adaptive_killed": (2, ["--opponent_difficulty_strategy", "adaptive", *ROW], "1:kill:17"),
    "two_rank_0_killed": (2, ["--sync_freq", "2", "--updates", "2", *EVALUATED], "0:kill:14"),
    "two_twin_late": (2, ["--twin", "--critic", "team", "--critic_form", "joined", *EVALUATED], "1:late:13"),
}
CODES = {"term": 128 + signal.SIGTERM, "late": 0}  # of the others: -SIGKILL


def of(world: int, words: list[str]) -> list[str]:
    return ["@1", *TINY, *words] if world == 1 else ["@0:patience:1", "@1:patience:1", *RANKS, *words]


def whole(name: str) -> str:
    """The name of the run with the same flags that is not stopped."""
    return "whole_" + next(other for other in STOPS if STOPS[other][:2] == STOPS[name][:2])


def going_on(world: int, run: Path, *words: str) -> list[str]:
    return [*["@1"][: world == 1], "train", "--resume", str(run), *words]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of all runs, and the output of each: whole, stopped, and resumed."""
    folder = tmp_path_factory.mktemp("stopped")
    trainings = {}
    for name, (world, words, fault) in STOPS.items():
        named = ["--run_name", "team", "--runs_dir"]
        trainings[whole(name)] = of(world, [*words, *named, str(folder / whole(name))])
        trainings[f"{name}, stopped"] = of(
            world, [f"@{fault}", *words, *named, str(folder / name / "stopped"), "--max_minutes", "60"]
        )
        run = folder / name / "stopped" / "snakes_3v3" / "team"
        trainings[f"{name}, resumed"] = going_on(world, run, "--max_minutes", "0")
    return folder, as_ranks(folder, trainings)


def in_order(done, name: str) -> str:
    """The output of rank 0; all ranks must have ended without an error."""
    for code, _, err in done[name]:
        assert (code, err) == (0, ""), (name, code, err)
    return done[name][0][1]


def events_of(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves that TensorBoard shows; times left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    tags = [tag for tag in events.Tags()["scalars"] if not tag.startswith("time")]
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
    found = re.search(r"resumed from +\S+ \(episode (\d+)\), bit-exactly", told)
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
    mine, other = events_of(resumed), events_of(untouched)
    assert {tag: [at for at in curve if at[0] not in more] for tag, curve in mine.items()} == {
        tag: [at for at in curve if at[0] not in more] for tag, curve in other.items()
    }
    assert_goes_on(resumed, 16)


def test_the_strategies_by_results_did_move(stopped) -> None:
    """Otherwise the tests above would not show that the results of a strategy are restored."""
    for name in ("adaptive_killed", "two_adaptive_killed", "league_late"):
        state = saved(the_run(stopped[0] / whole(name)), 16)["state"]["schedule"]
        assert state["rung"] > 0, name
        assert state["results"], name


def test_a_stop_says_how_to_go_on_and_a_lost_rank_too(stopped) -> None:
    _, done = stopped
    assert f"resume with: {command('train', '--resume')}" in done["two_term, stopped"][0][1]
    for name, lost, other in (("two_adaptive_killed", 1, 0), ("two_rank_0_killed", 0, 1)):
        code, _, err = done[f"{name}, stopped"][other]
        assert code == 3, err
        assert err.startswith(f"snakes: rank {lost} of 2 stopped answering during")
        assert err.endswith("resume it with --resume and the run's folder\n")


@pytest.mark.parametrize("strategy", STRATEGIES)
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


# --- not to the bit


class Killed(Exception):
    """Raised in place of a kill, in this process."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A finished run with checkpoints of episodes 8 and 16."""
    runs = tmp_path_factory.mktemp("tiny")
    assert here(*TINY, "--runs_dir", runs, "--run_name", "team").returncode == 0
    return the_run(runs)


@pytest.fixture
def run(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "runs" / "snakes_3v3" / "team")


@pytest.mark.parametrize(
    "words", [["--matches", "10"], ["--seed", "7"], ["--buffer_size", "1000"], ["--enable_opponent_evasion"]]
)
def test_other_matches_start_anew_and_the_counters_go_on(run, words) -> None:
    before = saved(run, 16)["state"]["progress"]
    done = here("train", "--resume", run, "--max_episodes", "24", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(episode 16), with new matches and a new buffer\n" in done.stdout
    assert_goes_on(run, 24)
    after = saved(run, 24)["state"]["progress"]
    assert all(after[name] > before[name] for name in ("turns", "updates", "env_steps", "episodes"))
    assert after["next_match"] > before["next_match"]  # no match is played twice
    first = next(line for line in logged(run) if line["step"] > 16)
    assert first["losses/entropy"] <= 1.4, "a mean over the new updates alone: the most is log 4"


def test_a_buffer_that_is_not_saved_is_filled_again(tmp_path) -> None:
    words = [*TINY, "--runs_dir", tmp_path, "--run_name", "team", "--save_buffer", "0"]
    assert here(*words, "--max_episodes", "8").returncode == 0
    run = the_run(tmp_path)
    assert set(manifest(run, 8)["files"]) == {"weights.safetensors", "state.pt"}
    done = here(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(episode 8), with new matches and a new buffer\n" in done.stdout
    assert_goes_on(run, 16)


def test_two_ranks_then_one_then_two(tmp_path) -> None:
    run = tmp_path / "snakes_3v3" / "team"
    done = as_ranks(
        tmp_path,
        {
            "two": [*RANKS, "--runs_dir", str(tmp_path), "--run_name", "team", "--keep_last", "0"],
            "one": going_on(1, run, "--max_episodes", "24", "--matches", "8"),
            "two again": going_on(2, run, "--max_episodes", "32", "--matches", "4"),
            "two once more": going_on(2, run, "--max_episodes", "40"),
        },
    )
    for name in ("one", "two again"):
        assert "), with new matches and a new buffer\n" in in_order(done, name)
    assert "(episode 32), bit-exactly\n" in in_order(done, "two once more")
    assert [manifest(run, episode)["world_size"] for episode in (16, 24, 32, 40)] == [2, 1, 2, 2]
    states = {episode: saved(run, episode)["state"]["progress"] for episode in (16, 24, 32, 40)}
    assert [state["episodes"] for state in states.values()] == [16, 24, 32, 40]
    for state in states.values():
        # A turn of all ranks is a turn of 8 matches, and 20 of them an update; three starts filled a buffer first.
        assert state["env_steps"] == 8 * state["turns"]
        assert state["turns"] // 20 - state["updates"] in (1, 2, 3)
    assert_goes_on(run, 40)


def test_a_finished_run_is_left_alone_and_is_no_failure_of_a_start_that_goes_on_by_itself(run) -> None:
    before = files_of(run)
    again = ["train", "--runs_dir", run.parent.parent, "--run_name", "team"]
    done = here(*again, "--max_episodes", "16")
    assert (done.returncode, done.stderr) == (0, ""), "a job that is queued again when all is done"
    assert "episode_16 has all its 16 episodes; resume with --max_episodes above 16\n" in done.stdout
    assert here("train", "--resume", run).returncode == 2
    assert here("train", "--runs_dir", run.parent.parent, "--load_model").returncode == 2
    assert files_of(run) == before


def test_a_run_that_was_killed_before_it_was_closed_is_closed(run, tmp_path) -> None:
    whole = measured(run)
    state = run / "checkpoints" / "episode_16" / "state.pt"
    held = torch.load(state, weights_only=True)
    assert held["closed"] is True
    shutil.rmtree(run / "checkpoints" / "episode_16")
    (run / "checkpoints" / "last").write_text("episode_8\n")
    words = ["train", "--runs_dir", run.parent.parent, "--run_name", "team"]
    with pytest.MonkeyPatch.context() as patch:  # stopped during its last evaluation

        def stop(*_: Any) -> None:
            raise Killed

        patch.setattr("marl.training.trainer.evaluate", stop)
        with pytest.raises(Killed):
            here(*words)
    assert torch.load(state, weights_only=True)["closed"] is False
    (run / "best_match.jsonl").unlink()
    done = here(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nat the end\n" in done.stdout
    assert (run / "best_match.jsonl").is_file()
    assert torch.load(state, weights_only=True)["closed"] is True
    assert measured(run) == whole


# --- a damaged newest checkpoint


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 16
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "rank0.pt", "manifest.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_leads_to_the_same_end(run, name, damage, tmp_path) -> None:
    whole = shutil.copytree(run, tmp_path / "whole")
    damage(run / "checkpoints" / "episode_16" / name)
    done = here("train", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    named = r"\w+\.\w+" if name == "manifest.json" else re.escape(name)  # a flipped bit may name another file
    assert re.fullmatch(rf"snakes: .*episode_16.*{named}.*; resuming from episode_8\n", done.stderr)
    assert "(episode 8), bit-exactly" in done.stdout
    assert_equal(saved(run, 16), saved(whole, 16))
    assert measured(run) == measured(whole)


# --- numbers that are not finite


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoilt")
    words = [*RANKS, "--updates", "4", "--run_name", "team", "--runs_dir"]
    trainings = {
        "few": ["@1:nan:9-11", *words, str(folder / "few")],
        "many": ["@1:nan:9-999", *words, str(folder / "many")],
        "steps": ["@0:nan:9-999", *words, str(folder / "steps"), "--sync_freq", "2"],
        "alone": ["@1", "@0:nan:9-11", *words, str(folder / "alone")],
    }
    return folder, as_ranks(folder, trainings)


@pytest.mark.parametrize("name", ["few", "alone"])
def test_batches_that_are_not_finite_on_one_rank_are_skipped_by_all_ranks(spoilt, name) -> None:
    folder, done = spoilt
    told = in_order(done, name)  # with all parameters compared after every update
    assert "3 updates were skipped: their gradients were not finite\n" in told
    run = the_run(folder / name)
    lines = logged(run)
    updates = [0, *(line["train/updates"] for line in lines)]
    left_out = [line["losses/skipped"] * (b - a) for line, a, b in zip(lines, updates, updates[1:], strict=False)]
    assert left_out == pytest.approx([3, 0, 0, 0])
    state = saved(run, 16)["state"]
    steps = state["learner"]["critic_optimizer"]["optimizer"]["state"][0]["step"].item()
    assert steps == state["progress"]["updates"] - 3
    assert not (run / "not_finite.pt").exists()
    assert_goes_on(run, 16)


@pytest.mark.parametrize(("name", "rank"), [("many", 1), ("steps", 0)])
def test_many_in_a_row_stop_all_ranks_and_leave_the_batch(spoilt, name, rank) -> None:
    folder, done = spoilt
    run = the_run(folder / name)
    assert [code for code, _, _ in done[name]] == [4, 4]  # EXIT_TOGETHER
    assert done[name][1][2] == ""
    said = rf"snakes: the gradient of (\d+) updates in a row \(last batch: not_finite.pt\) .*--resume {run} .*\n"
    found = re.fullmatch(said, done[name][0][2])
    assert int(found[1]) >= SKIPS_IN_A_ROW
    batches = torch.load(run / "not_finite.pt", weights_only=True)
    assert [bool(batches[each]["returns"].isnan().any()) for each in (0, 1)] == [rank == 0, rank == 1]
    assert batches[rank].keys() >= {"obs", "actions", "returns", "discounts", "next_obs"}


# --- started again by the same launcher


def test_a_folder_without_a_run_counts_as_new(tmp_path) -> None:
    (tmp_path / "snakes_3v3" / "team").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("matches: 7\n")  # of something else
    done = here(*TINY, "--runs_dir", tmp_path, "--run_name", "team", "--max_episodes", "4")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "snakes_3v3" / "team" / "config.yaml").is_file()


@pytest.mark.parametrize("how", ["new", "never", "load_model", "older"])
def test_a_restart_goes_on_from_what_its_launch_has_saved(run, how, monkeypatch) -> None:
    """At every restart, whatever the command line says about resuming. The restarts run in this process."""
    runs, before, older = run.parent.parent, files_of(run), run / "checkpoints" / "episode_8"
    words = {
        "new": [*TINY],
        "never": [*TINY, "--run_name", "mine", "--resume", "never"],
        "load_model": ["train", "--load_model", "--load_model_run_episode", "8", "--run_name", "mine"],
        "older": ["train", "--resume", str(older)],
    }[how]
    words += ["--runs_dir", str(runs), "--max_episodes", "12", "--save_interval", "2", "--max_restarts", "9"]
    ends = []

    def launch(words: list[str], *_: Any, **__: Any) -> int:
        with monkeypatch.context() as patch:
            for end in ("marl.training.trainer.Trainer._between_cycles",) * 2 + ("marl.training.trainer.evaluate",):
                patch.setattr(end, kill)
                with pytest.raises(Killed):
                    train.run_words(words)
                patch.undo()
        ends.append(here("train", *words))
        return 0

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    monkeypatch.setattr("marl.ranks.launch.launch", launch)
    monkeypatch.setattr("marl.storage.relaunch.launcher", lambda: "the same for all of them")
    told = here(*words)
    assert (told.returncode, told.stderr) == (0, "")
    (mine,) = [run] if how == "older" else set(run.parent.iterdir()) - {run}
    begins = [f"resumed from    {older} (episode 8)"] * (how in ("load_model", "older"))
    assert re.findall(r"resumed from .*\(episode \d+\)", told.stdout) == begins * 3
    (done,) = ends
    assert (done.returncode, done.stderr) == (0, "")
    assert f"resumed from    {mine / 'checkpoints' / 'episode_12'} (episode 12), bit-exactly\n" in done.stdout
    assert_goes_on(mine, 12)
    if how != "older":
        assert files_of(run) == before


def test_a_launch_that_fails_at_once_leaves_no_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("marl.ranks.launch.launch", lambda *_, **__: 2)
    done = here(*TINY, "--runs_dir", tmp_path, "--distributed", "--max_restarts", "1")
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []
