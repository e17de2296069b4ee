"""`snakes train` in one process: the run of configs/smoke.yaml, its files and output, and runs that fail."""

import json
import re
import shlex
import shutil
from importlib import metadata

import pytest
import torch
import yaml
from helpers.command import assert_one_line
from helpers.training import (
    SMOKE,
    TINY,
    TINY_ANY,
    alone,
    assert_goes_on,
    files_of,
    here,
    logged,
    manifest,
    the_run,
    tiny_disk,
)
from safetensors.torch import load_file

from arena import jit, replay
from marl.config import reader
from marl.config.train_config import read_config
from marl.learners.ddpg import Ddpg
from marl.metrics.console import Console

TAGS = {
    "time/global_fps", "losses/critic", "losses/actor", "reward/snake0", "reward/snake1", "reward/snake2",
    "reward/total", "train/epsilon", "train/opponent_level", "train/env_steps", "train/updates",
}  # fmt: skip


# --- the smoke configuration


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    runs = tmp_path_factory.mktemp("smoke")
    done = alone("train", "--config", "configs/smoke.yaml", "--runs_dir", runs)
    assert done.returncode == 0, done.stderr
    return the_run(runs), done


def test_the_run_folder_says_what_the_run_is(smoke) -> None:
    run, _ = smoke
    assert re.fullmatch(r"run1_\d{8}_\d{6}", run.name)
    written = yaml.safe_load((run / "config.yaml").read_text())
    assert reader.to_dict(read_config(["--config", str(run / "config.yaml")])) == written
    assert written["matches"] == 16
    assert written["schedule"]["max_episodes"] == 64
    network = (written["network"]["encoder"], written["network"]["body"])
    resolved = (written["precision"], *network, *written["ddpg"].values())
    assert None not in resolved
    about = json.loads((run / "run.json").read_text())
    assert (
        about["command"] == f"snakes train --config configs/smoke.yaml --runs-dir {shlex.quote(str(run.parent.parent))}"
    )
    assert about["world_size"] == 1
    assert about["versions"]["torch"] == metadata.version("torch")  # torch.__version__ may name its build as well
    assert about["earlier"] == []
    assert {"git", "processor", "started"} <= about.keys()


def test_the_same_numbers_are_in_metrics_and_in_tensorboard(smoke) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run, _ = smoke
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    training = logged(run)
    assert [line["step"] for line in training] == [16, 32, 48, 64]
    assert all(line.keys() >= TAGS for line in training)
    assert any(f"win_rate/{name}" in line for line in training for name in ("level0", "level1"))
    assert {"eval/win_rate_level0", "eval/win_rate_level1", "eval/points"} <= lines[-1].keys()
    for line in training:
        assert line["reward/total"] == pytest.approx(sum(line[f"reward/snake{k}"] for k in range(3)))
        # Matches are at different turns, so that episodes come evenly: 200 turns each, and those to fill the buffer.
        assert line["train/env_steps"] == pytest.approx(200 * line["step"], abs=4 * 16 * 4)
    events = EventAccumulator(str(run))
    events.Reload()
    tags = [tag for tag in events.Tags()["scalars"] if not tag.startswith("by_env_steps/")]
    assert set(tags) == {name for line in lines for name in line} - {"step", "time"}
    for tag in tags:
        written = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [(e.step, e.value) for e in events.Scalars(tag)] == [(s, pytest.approx(v)) for s, v in written]


def test_checkpoints_hold_plain_weights_and_last_and_best_point_to_them(smoke) -> None:
    run, _ = smoke
    folder = run / "checkpoints"
    assert {path.name for path in folder.iterdir()} == {"episode_32", "episode_64", "last", "best"}
    assert (folder / "last").read_text() == "episode_64\n"
    assert (folder / "best").read_text() == "episode_64\n"
    weights = load_file(folder / "episode_64" / "weights.safetensors")
    assert {name.partition(".")[0] for name in weights} == {"actor", "critic", "target_actor", "target_critic"}
    assert not [name for name in weights if "module." in name]
    assert manifest(run, 64)["world_size"] == 1
    before = load_file(folder / "episode_32" / "weights.safetensors")
    assert all(not torch.equal(before[name], weights[name]) for name in weights)


def test_the_best_match_is_a_replay_that_holds_true(smoke) -> None:
    run, done = smoke
    assert str(run / "best_match.jsonl") in done.stdout
    replay.read(run / "best_match.jsonl")  # plays it through and compares every turn


def test_the_output_in_a_pipe_is_plain_lines_that_say_where_everything_is(smoke) -> None:
    run, done = smoke
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    assert done.stdout.startswith(f"run             {run}\n")
    assert "batch           96 snake transitions\n" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("episode ")]
    assert [line.split(" | ")[0] for line in lines] == [f"episode {n}/64" for n in (16, 32, 48, 64)]
    for word in ("reward", "epsilon", "opponent", "won", "critic", "actor", "save", "by opponent", "each snake"):
        assert done.stdout.count(f" | {word} ") == len(lines), word
    assert "ranks" not in done.stdout  # there is one
    log = done.stdout.partition("\nat the end\n")[0]
    assert max(len(line) for line in log.splitlines() if str(run) not in line) <= 100
    end = done.stdout.partition("\nat the end\n")[2]
    assert re.search(r"level0 +\d", end)
    assert re.search(r"level1 +\d", end)
    for name in ("episode_64", "best_match.jsonl", f" -m tensorboard.main --logdir {shlex.quote(str(run.parent))}"):
        assert name in end
    assert f" -m marl eval --home {shlex.quote(str(run))} --away level2" in end


def test_eval_plays_the_trained_team(smoke) -> None:
    run, _ = smoke
    done = here("eval", "--home", run, "--away", "level0", "--matches", "20", "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert (whole["home"], whole["matches"]) == (str(run), 20)
    for path in ("checkpoints/episode_64", "checkpoints/best", "checkpoints/last"):
        done = here("eval", "--home", run / path, "--away", "level0", "--matches", "20", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["wins"] == whole["wins"]


@pytest.mark.parametrize("command", ["eval", "train"])
def test_a_damaged_checkpoint_is_told_in_a_line(smoke, tmp_path, command) -> None:
    run = shutil.copytree(smoke[0], tmp_path / "run")
    for name in ("episode_32", "episode_64"):
        file = run / "checkpoints" / name / "weights.safetensors"
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    before = files_of(run)
    if command == "eval":
        done = here("eval", "--home", run, "--away", "level0", "--matches", "2")
    else:
        done = here("train", "--resume", run, "--max_episodes", "128")
    assert_one_line(done, "episode_64", "weights.safetensors", "damaged")
    assert files_of(run) == before


def test_a_damaged_last_checkpoint_is_passed_over(smoke, tmp_path) -> None:
    run = shutil.copytree(smoke[0], tmp_path / "run")
    (run / "checkpoints" / "episode_64" / "state.pt").write_bytes(b"")
    done = here("train", "--resume", run, "--max_episodes", "48")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert "state.pt is damaged" in done.stderr
    assert done.stderr.endswith("resuming from episode_32\n")
    assert_goes_on(run, 48)


def test_compiling_in_a_cycle_is_shown_beside_the_bar(tmp_path, monkeypatch) -> None:
    """Code of the learner is not in the cache: a text says why nothing moves. A pipe gets no further line."""
    learn, shown = Ddpg.learn, []

    def learn_after_a_miss(self) -> None:
        jit._announcements[-1].begin()
        learn(self)

    monkeypatch.setattr(Ddpg, "learn", learn_after_a_miss)
    monkeypatch.setattr(Console, "task", lambda self, text: shown.append(text))
    done = here(*TINY, "--runs_dir", tmp_path, "--max_episodes", "4")
    assert done.returncode == 0, done.stderr
    assert "compiling ddpg (once)" in shown


# --- numbers that are not finite


@pytest.mark.parametrize(
    ("rate", "interval", "what"),
    [
        ("1e30", "4", r"the gradient of \d\d+ updates in a row \(last batch: not_finite.pt\)"),
        ("1e39", "1000", "a weight"),
    ],
)
def test_numbers_that_are_not_finite_end_the_run_and_are_never_saved(tmp_path, rate, interval, what) -> None:
    runs = tmp_path / "one's runs"
    done = here(*TINY, "--runs_dir", runs, "--c_lr", rate, "--updates", "10", "--log_interval", interval)
    run = the_run(runs)
    assert done.returncode == 1
    folder = re.escape(shlex.quote(str(run)))
    said = rf"snakes: {what} is not finite at episode \d+; .*--resume {folder} .*--c_lr .*\n"
    assert re.fullmatch(said, done.stderr), done.stderr
    for folder in (run / "checkpoints").glob("episode_*"):
        assert all(t.isfinite().all() for t in load_file(folder / "weights.safetensors").values())


def test_the_last_batch_of_ppo_has_what_the_loss_was_made_from(tmp_path) -> None:
    done = here(*TINY_ANY, "--algo", "ppo", "--runs_dir", tmp_path, "--lr", "1e30", "--log_interval", "1")
    assert "not_finite.pt" in done.stderr
    batch = torch.load(the_run(tmp_path) / "not_finite.pt", weights_only=True)[0]
    rows = len(batch["idx"])
    assert batch["obs"].shape[:2] == (rows, 3)
    assert batch["obs"].any()
    for name in ("actions", "masked", "log_probs", "values", "advantages", "returns"):
        assert batch[name].shape == (rows, 3), name


# --- the disk


def test_a_folder_that_cannot_be_made(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    done = here(*TINY, "--runs_dir", tmp_path / "file" / "runs")
    assert_one_line(done, "cannot make the run folder", str(tmp_path / "file" / "runs"), "--runs_dir")


def test_a_full_disk_is_told_and_keeps_what_is_good(tmp_path) -> None:
    with tiny_disk(tmp_path / "disk", "512k") as disk:
        done = here(
            "train", "--config", SMOKE, *TINY[3:], "--runs_dir", disk, "--save_interval", "4", "--keep_last", "0"
        )
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1
        assert "No space left on device" in done.stderr
        assert "is still good" in done.stderr
        run = the_run(disk)
        good = re.search(r"(episode_\d+) is still good", done.stderr)[1]
        moved = shutil.copytree(run, tmp_path / "moved")
    again = here("train", "--resume", moved, "--keep_last", "1")
    assert again.returncode == 0, again.stderr
    assert f"{good} (episode" in again.stdout
