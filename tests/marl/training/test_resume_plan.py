"""Runs that resume without being bit-exact, or from an older checkpoint; and starts that find a run."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.resumed import assert_equal, in_order, measured, resuming, saved
from helpers.training import RANKS, TINY, as_ranks, assert_goes_on, files_of, here, logged, manifest, the_run

from marl.commands import train
from marl.storage import checkpoint_writer
from marl.storage.checkpoint import read


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
    assert first["policy/entropy"] <= 1.4, "a mean over the new updates alone: the most is log 4"


def test_a_buffer_that_is_not_saved_is_filled_again(tmp_path) -> None:
    words = [*TINY, "--runs_dir", tmp_path, "--run_name", "team", "--save_buffer", "0"]
    assert here(*words, "--max_episodes", "8").returncode == 0
    run = the_run(tmp_path)
    assert set(manifest(run, 8)["files"]) == {"weights.safetensors", "state.pt"}
    done = here(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(episode 8), with new matches and a new buffer\n" in done.stdout
    assert_goes_on(run, 16)


def test_only_the_newest_checkpoint_keeps_a_large_buffer(tmp_path, monkeypatch) -> None:
    """Resumed from it, a run goes on bit by bit; from an older one it fills a new buffer."""
    words = [*TINY, "--keep_last", "0", "--runs_dir", tmp_path]
    for name, bound in (("small", 10**9), ("large", 0)):
        monkeypatch.setattr(checkpoint_writer, "KEPT_IN_OLDER", bound)
        for limit in ("16", "24"):
            done = here(*words, "--run_name", name, "--max_episodes", limit)
            assert (done.returncode, done.stderr) == (0, "")
        assert "(episode 16), bit-exactly\n" in done.stdout
        run = tmp_path / "snakes_3v3" / name
        for episode in (8, 16, 24):
            folder, with_buffer = run / "checkpoints" / f"episode_{episode}", name == "small" or episode == 24
            assert ("rank0" in read(folder).parts) == with_buffer
            assert (folder / "rank0.pt").exists() == with_buffer
    assert re.search(
        r"checkpoints +the newest up to [\d.]+ MB with matches and buffer, to resume bit by bit", done.stdout
    )
    assert_equal(saved(run, 24), saved(run.with_name("small"), 24))
    done = here("train", "--resume", run / "checkpoints" / "episode_16", "--max_episodes", "24")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(episode 16), with new matches and a new buffer\n" in done.stdout


def test_two_ranks_then_one_then_two(tmp_path) -> None:
    run = tmp_path / "snakes_3v3" / "team"
    done = as_ranks(
        tmp_path,
        {
            "two": [*RANKS, "--runs_dir", str(tmp_path), "--run_name", "team", "--keep_last", "0"],
            "one": resuming(1, run, "--max_episodes", "24", "--matches", "8"),
            "two again": resuming(2, run, "--max_episodes", "32", "--matches", "4"),
            "two once more": resuming(2, run, "--max_episodes", "40"),
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
    words = ["train", "--runs_dir", run.parent.parent, "--run_name", "team", "--device", "cpu"]
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


# Every damage of every file: tests/marl/storage/test_checkpoint.py.
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weights.safetensors", flip),
        ("state.pt", truncate),
        ("rank0.pt", Path.unlink),
        ("manifest.json", flip),
        ("manifest.json", Path.unlink),
    ],
)
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


# --- starts that find a run


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
                    train.run_argv(words)
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
