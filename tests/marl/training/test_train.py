"""`snakes train` in one process, as users run it."""

import json
import re
import shutil
import signal
import socket

import pytest
import torch
import yaml
from helpers.command import assert_one_line, snakes
from helpers.training import (
    SMOKE,
    TINY,
    assert_goes_on,
    files_of,
    finish,
    forked,
    here,
    logged,
    manifest,
    the_run,
    tiny_disk,
    wait_for,
)
from safetensors.torch import load_file

from arena import replay
from marl.config import reader
from marl.config.help import help_of
from marl.config.options import Schema
from marl.config.train_config import TrainConfig, read_config
from opponents.scheduler import STRATEGIES

TAGS = {
    "time/global_fps", "losses/critic", "losses/actor", "reward/snake0", "reward/snake1", "reward/snake2",
    "reward/total", "train/epsilon", "train/opponent_level", "train/env_steps", "train/updates",
}  # fmt: skip


# --- the smoke configuration, word for word


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    runs = tmp_path_factory.mktemp("smoke")
    done = snakes("train", "--config", "configs/smoke.yaml", "--runs_dir", str(runs))
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
    assert about["command"] == f"snakes train --config configs/smoke.yaml --runs-dir {run.parent.parent}"
    assert about["world_size"] == 1
    assert about["versions"]["torch"] == torch.__version__
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
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    tags = events.Tags()["scalars"]
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
    assert "96 x 1 ranks x sync_freq 1 = 96 snake transitions" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("episode ")]
    assert [line.split(" | ")[0] for line in lines] == [f"episode {n}/64" for n in (16, 32, 48, 64)]
    for word in ("reward", "epsilon", "level", "won", "critic", "actor", "ranks 1"):
        assert all(f"| {word}" in line for line in lines)
    end = done.stdout.partition("\nat the end\n")[2]
    assert re.search(r"level0 +\d", end)
    assert re.search(r"level1 +\d", end)
    for name in ("episode_64", "best_match.jsonl", f"tensorboard --logdir {run}"):
        assert name in end
    assert f"eval --home {run} --away level2" in end


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
    assert done.stderr.endswith("going on from episode_32\n")
    assert_goes_on(run, 48)


# --- go on


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A finished run of 16 episodes; tests that change it take a copy."""
    runs = tmp_path_factory.mktemp("tiny")
    done = here(*TINY, "--runs_dir", runs)
    assert done.returncode == 0, done.stderr
    return the_run(runs)


@pytest.fixture
def run(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "runs" / "snakes_3v3" / tiny.name)


def state_of(run, episode) -> dict:
    return torch.load(run / "checkpoints" / f"episode_{episode}" / "state.pt", weights_only=True)


def adam_of(state) -> dict:
    return state["learner"]["actor_optimizer"]["optimizer"]


def test_resume_needs_no_other_flag_than_more_episodes(run) -> None:
    done = here("train", "--resume", run, "--max_episodes", "32")
    assert done.returncode == 0, done.stderr
    assert f"going on from   {run / 'checkpoints' / 'episode_16'} (episode 16)" in done.stdout
    assert "episode 20/32" in done.stdout
    assert_goes_on(run, 32)
    before, after = state_of(run, 16), state_of(run, 32)
    for name in ("turns", "updates", "env_steps", "next_match", "seconds"):
        assert after["progress"][name] > before["progress"][name], name
    assert after["progress"]["episodes"] == 32
    steps = [adam_of(state)["state"][0]["step"].item() for state in (before, after)]
    assert steps == [before["progress"]["updates"], after["progress"]["updates"]]
    # What was played before counts on: epsilon follows from the episode, the schedule from the results.
    assert logged(run)[-1]["train/epsilon"] == pytest.approx(0.5 * 0.9995**32)
    assert after["schedule"]["results"].keys() >= before["schedule"]["results"].keys()
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["matches"], config["schedule"]["max_episodes"]) == (8, 32)
    about = json.loads((run / "run.json").read_text())
    assert len(about["earlier"]) == 1
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_resume_from_an_older_checkpoint_drops_what_came_after_it(run) -> None:
    done = here("train", "--resume", run / "checkpoints" / "episode_8", "--a_lr", "1e-5")
    assert done.returncode == 0, done.stderr
    assert_goes_on(run, 16)
    assert adam_of(state_of(run, 16))["param_groups"][0]["lr"] == pytest.approx(1e-5)


def test_the_tensorboard_curve_of_a_resumed_run_has_no_step_twice(run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert here("train", "--resume", run / "checkpoints" / "episode_8").returncode == 0
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("reward/total")] == [line["step"] for line in logged(run)]


def test_a_finished_run_is_left_as_it_is(run) -> None:
    before = files_of(run)
    assert_one_line(here("train", "--resume", run), "episode_16 has all its 16 episodes", "--max_episodes above 16")
    assert files_of(run) == before


def test_flags_that_do_not_fit_the_checkpoint_leave_the_run_as_it_is(run) -> None:
    before = files_of(run)
    for words in (["--body", "8,8"], ["--twin"], ["--critic", "team"], ["--encoder", "planes"]):
        done = here("train", "--resume", run, "--max_episodes", "32", *words)
        assert_one_line(done, "episode_16 holds other networks")
    assert files_of(run) == before


def test_another_strategy_may_go_on(run) -> None:
    done = here("train", "--resume", run, "--max_episodes", "24", "--opponent_difficulty_strategy", "adaptive")
    assert done.returncode == 0, done.stderr
    assert_goes_on(run, 24)


def test_a_run_name_goes_on_by_itself_and_never_does_not(tmp_path) -> None:
    words = [*TINY, "--runs_dir", tmp_path, "--run_name", "team"]
    assert here(*words, "--max_episodes", "8").returncode == 0
    assert here(*words).returncode == 0
    run = the_run(tmp_path)
    assert run.name == "team"
    assert_goes_on(run, 16)
    before = files_of(run)
    assert_one_line(here(*words, "--resume", "never"), f"run {run} is there already", "--resume", "--run_name")
    assert_one_line(here(*words, "--run_name", "a/b"), "a/b", "plain folder name")
    assert files_of(run) == before


def test_a_run_without_a_checkpoint_starts_afresh_in_its_folder(run) -> None:
    shutil.rmtree(run / "checkpoints")
    assert here("train", "--resume", run).returncode == 0
    assert_goes_on(run, 16)


def test_load_model_starts_a_new_run_from_a_checkpoint(run) -> None:
    runs, before = run.parent.parent, files_of(run)
    load = ["train", "--runs_dir", runs, "--load_model"]
    done = here(*load, "--load_model_run", "1", "--load_model_run_episode", "8")
    assert done.returncode == 0, done.stderr
    (second,) = set(run.parent.iterdir()) - {run}
    assert second.name.startswith("run2_")
    assert f"going on from   {run / 'checkpoints' / 'episode_8'}" in done.stdout
    assert [line["step"] for line in logged(second)] == [12, 16]
    assert (second / "checkpoints" / "best").is_file()
    assert files_of(run) == before
    # The newest run and its last checkpoint, in a run with a name, whose name the next one does not take over.
    done = here(*load, "--max_episodes", "24", "--run_name", "third")
    assert done.returncode == 0, done.stderr
    assert f"{second / 'checkpoints' / 'episode_16'}" in done.stdout
    done = here(*load, "--max_episodes", "32")
    assert done.returncode == 0, done.stderr
    assert f"{run.parent / 'third' / 'checkpoints' / 'episode_24'}" in done.stdout
    assert {path.name.partition("_")[0] for path in run.parent.iterdir()} == {"run1", "run2", "third", "run3"}


def test_what_cannot_be_loaded_is_told_with_where_and_what_is_there(run, tmp_path) -> None:
    runs = run.parent.parent
    load = ["train", "--runs_dir", runs, "--load_model"]
    assert_one_line(here(*load, "--load_model_run", "7"), "no run 7 (run7_*)", str(run.parent), f"there: {run.name}")
    done = here(*load, "--load_model_run", "1", "--load_model_run_episode", "9")
    assert_one_line(done, "no checkpoint of episode 9", str(run / "checkpoints"), "there: episode_8, episode_16")
    assert_one_line(here("train", "--load_model", "--runs_dir", tmp_path / "none"), "no run in", str(tmp_path / "none"))
    assert_one_line(here("train", "--resume", tmp_path / "none"), str(tmp_path / "none"), "no such run or checkpoint")
    assert_one_line(here("train", "--resume", tmp_path), "no run (with checkpoints/)", "there: runs")
    assert_one_line(here("train", "--load_model_run", "1"), "add --load_model")
    assert_one_line(here(*load, "--resume", run), "load_model and resume", "give one of them")


# --- stop


def test_term_saves_and_says_how_to_go_on(tmp_path) -> None:
    endless = [*TINY, "--runs_dir", tmp_path, "--max_episodes", "1000000", "--max_minutes", "1"]
    with forked(endless) as process:
        wait_for(process, "episode ")
        process.send_signal(signal.SIGTERM)
        done = finish(process)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == ""
    run = the_run(tmp_path)
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"stopped by a signal at episode ([\d,]+); go on with: snakes (train --resume \S+)", last)
    episode = int(found[1].replace(",", ""))
    assert (run / "checkpoints" / "last").read_text() == f"episode_{episode}\n"
    again = here(*found[2].split(), "--max_episodes", str(episode + 8))
    assert again.returncode == 0, again.stderr
    assert_goes_on(run, logged(run)[-1]["step"])
    assert logged(run)[-1]["step"] >= episode + 8


def test_ctrl_c_in_this_process_leaves_its_handlers_as_they_were(tmp_path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert here(*TINY, "--runs_dir", tmp_path, "--max_episodes", "4").returncode == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_max_minutes_ends_a_run_in_good_order(tmp_path) -> None:
    done = here(*TINY, "--runs_dir", tmp_path, "--max_episodes", "1000000", "--max_minutes", "0.01")
    assert done.returncode == 0, done.stderr
    run = the_run(tmp_path)
    episode = int((run / "checkpoints" / "last").read_text().strip().removeprefix("episode_"))
    assert 0 < episode < 1_000_000
    assert "at the end" in done.stdout
    assert_one_line(here("train", "--resume", run), "minutes; train on with a higher --max_minutes")
    done = here("train", "--resume", run, "--max_minutes", "0", "--max_episodes", str(episode + 8))
    assert done.returncode == 0, done.stderr


def test_a_run_that_ends_by_time_is_evaluated_once_at_its_end(tmp_path) -> None:
    times = ["--max_episodes", "1000000", "--max_minutes", "0.01"]
    due = ["--turns", "50", "--eval_interval", "1"]  # after every cycle: in so many turns some matches end
    done = here(*TINY, "--runs_dir", tmp_path, *times, *due)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (the_run(tmp_path) / "metrics.jsonl").read_text().splitlines()]
    evaluated = [line["step"] for line in lines if "eval/points" in line]
    assert len(evaluated) == len(set(evaluated)) > 1


# --- numbers that are none


@pytest.mark.parametrize(
    ("rate", "interval", "what"),
    [
        ("1e30", "4", r"the gradient of \d\d+ updates in a row \(last batch: not_finite.pt\)"),
        ("1e39", "1000", "a weight"),
    ],
)
def test_numbers_that_are_none_end_the_run_and_are_never_saved(tmp_path, rate, interval, what) -> None:
    done = here(*TINY, "--runs_dir", tmp_path, "--c_lr", rate, "--updates", "10", "--log_interval", interval)
    run = the_run(tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(rf"snakes: {what} is not finite at episode \d+; .*--resume {run} .*--c_lr .*\n", done.stderr)
    for folder in (run / "checkpoints").glob("episode_*"):
        assert all(t.isfinite().all() for t in load_file(folder / "weights.safetensors").values())


# --- flags


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_trains_under_either_spelling(tmp_path, strategy) -> None:
    flag = "--opponent_difficulty_strategy" if len(strategy) % 2 else "--opponent-difficulty-strategy"
    done = here(
        *TINY, "--runs-dir", tmp_path, "--max-episodes=8", flag, strategy, "--ddpg.tau", "0.5", "--epsilon", "0"
    )
    assert done.returncode == 0, done.stderr
    assert f"{strategy} over 8 episodes" in done.stdout
    config = yaml.safe_load((the_run(tmp_path) / "config.yaml").read_text())
    assert (config["schedule"]["strategy"], config["ddpg"]["tau"], config["ddpg"]["epsilon"]) == (strategy, 0.5, 0)


MISTAKES = [
    (["--opponent_difficulty_strategy", "hard"], "'hard'", "curriculum", "adaptive"),
    (["--config", "configs/none.yaml"], "configs/none.yaml", "No such file"),
    (["--config_version", "2"], "config_version is 2", "version 1"),
    (["--no_such_flag", "3"], "--no-such-flag", "known"),
    (["--a_lr", "fast"], "--a-lr is 'fast'", "a finite number"),
    (["--max_episodes", "3.5"], "--max-episodes is '3.5'", "a whole number"),
    (["--max_episodes", "0"], "max_episodes is 0"),
    (["--seed", "99999999999999999999"], "seed is 99999999999999999999", "allowed"),
    (["--matches", "7"], "matches is 7", "even"),
    (["--buffer_size", "10"], "ddpg.buffer_size is 10", "from 96"),
    (["--sync_freq", "3", "--updates", "4"], "ddpg.updates is 4", "multiple of 3"),
    (["--eval_opponents", "level9"], "'level9'", "level0"),
    (["--precision", "bf16"], "precision is bf16", "fp32"),
    (["--device", "tpu"], "--device tpu", "cuda:N"),
    (["--algo", "dqn"], "--algo is 'dqn'", "ddpg"),
    (["--num_gpus", "few"], "--num_gpus few", "whole number"),
    (["--num_gpus"], "--num_gpus needs a value"),
    (["--distributed", "--nnodes", "2"], "NNODES=2 but MASTER_ADDR is not set"),
]


@pytest.mark.parametrize(("words", "parts"), [(m[0], m[1:]) for m in MISTAKES], ids=[" ".join(m[0]) for m in MISTAKES])
def test_a_mistake_is_told_in_a_line_and_leaves_nothing(tmp_path, words, parts) -> None:
    assert_one_line(here(*TINY, "--runs_dir", tmp_path, *words), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--num_gpus", "4"], ("--num_gpus 4", "no GPU", "NPROC=4")),
        (["--distributed", "--num_gpus", "4"], ("--num_gpus 4", "no GPU")),
        (["--device", "cuda"], ("--device cuda", "no CUDA device")),
    ],
)
def test_gpus_that_are_not_there(tmp_path, words, parts) -> None:
    assert_one_line(here(*TINY, "--runs_dir", tmp_path, *words), *parts)


def test_a_mistake_in_a_file_names_the_file(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    for text, *parts in (
        ("ddpg:\n  a_lr: fast\n", "ddpg.a_lr", "'fast'", "a finite number"),
        ("ddpg:\n  speed: 3\n", "unknown key ddpg.speed"),
        ("max_episodes: [1\n", "line 2", "bad YAML"),
    ):
        file.write_text(text)
        assert_one_line(here("train", "--config", file, "--runs_dir", tmp_path / "runs"), str(file), *parts)
    file.write_text("config_version: 2\n")
    assert_one_line(here("train", "--config", file, "--runs_dir", tmp_path / "runs"), "config_version is 2")


def test_a_port_in_use(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NPROC", "2")
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        done = here(*TINY, "--runs_dir", tmp_path, "--distributed", "--master_port", str(port))
    assert_one_line(done, f"port {port}", "in use", "--master_port")


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
@pytest.mark.parametrize("words", [[], ["--distributed"]])
def test_torchrun_variables_half_set(tmp_path, monkeypatch, name, words) -> None:
    monkeypatch.setenv(name, "1" if name == "RANK" else "0")
    monkeypatch.setenv("NPROC", "1")
    done = here(*TINY, "--runs_dir", tmp_path, *words)
    assert_one_line(done, f"{name} is set but", "MASTER_ADDR", "unset it")
    assert list(tmp_path.iterdir()) == []


def test_nproc_1_is_one_process(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NPROC", "1")
    done = here(*TINY, "--runs_dir", tmp_path, "--distributed", "--max_episodes", "4")
    assert done.returncode == 0, done.stderr
    assert "1, one process" in done.stdout


def test_help_names_every_flag() -> None:
    done = here("train", "--help")
    assert done.returncode == 0
    for flag in ("--config FILE", "--distributed", "--num_gpus", "--max_episodes", "--opponent_difficulty_strategy"):
        assert flag in done.stdout
    for option in Schema(TrainConfig).options.values():
        assert f"--{option.path}" in done.stdout
        assert help_of(option), option.path
    for name in ("batch_size", "gamma", "lr_end", "entropy", "uniform_kl"):
        assert f"--ddpg.{name}, --{name} " in done.stdout
        assert f"--ppo.{name}, --{name} " in done.stdout
    rule = "such a flag means the section of --algo: ddpg for ddpg; ppo for ppo, ppo_lstm."
    assert rule in done.stdout.replace("\n", " ")
    assert not any(old in done.stdout for old in ("--even", "--memory", "--episode_length"))


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
