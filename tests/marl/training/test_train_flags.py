"""Flags of `snakes train`: all strategies, mistakes, and the help."""

import socket

import pytest
import torch
import yaml
from helpers.command import assert_one_line
from helpers.training import TINY, here, the_run

from marl.config import autoscale, reader
from marl.config.help import help_of
from marl.config.options import Schema
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.training.resume_plan import plan_resume
from opponents.scheduler import strategies


@pytest.mark.parametrize("strategy", strategies())
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


@pytest.mark.parametrize("has_bf16", [False, True])
def test_bf16_is_for_a_cpu_that_has_it(tmp_path, has_bf16, monkeypatch) -> None:
    monkeypatch.setattr(autoscale, "_cpu_has_bf16", lambda: has_bf16)
    done = here(*TINY, "--runs_dir", tmp_path, "--precision", "bf16", "--dry_run")
    if has_bf16:
        assert (done.returncode, done.stderr) == (0, "")
        assert "bf16" in done.stdout
    else:
        assert_one_line(done, "precision is bf16", "fp32")


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
    assert "ranks" not in done.stdout


def test_help_names_every_flag() -> None:
    done = here("train", "--help", "all")
    assert done.returncode == 0
    assert here("train", "--help_all").stdout == done.stdout
    for flag in ("--config NAME", "--distributed", "--num_gpus", "--max_episodes", "--opponent_difficulty_strategy"):
        assert flag in done.stdout
    for option in Schema(TrainConfig).options.values():
        assert f"--{option.path}" in done.stdout
        assert help_of(option), option.path
    for name in ("batch_size", "gamma", "lr_end", "entropy", "uniform_kl"):
        assert f"--ddpg.{name}, --{name} " in done.stdout
        assert f"--ppo.{name}, --{name} " in done.stdout
    rule = "such a flag means the section of --algo: ddpg for ddpg, maddpg, matd3; ppo for ppo, ppo_lstm, mappo; "
    assert f"{rule}qlearning for vdn, qmix." in done.stdout.replace("\n", " ")
    assert not any(old in done.stdout for old in ("--even", "--memory", "--episode_length"))


def test_a_resumed_run_reads_the_flags_of_its_own_learner(tmp_path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(reader.to_dict(read_config(["--algo", "ppo"]))))
    assert plan_resume(["--resume", str(tmp_path), "--lr", "0.5"]).config.ppo.lr == 0.5
    with pytest.raises(UserError, match="--a_lr is an option of section ddpg, but --algo is ppo"):
        plan_resume(["--resume", str(tmp_path), "--a_lr", "0.5"])
