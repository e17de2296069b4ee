"""A user's program, checked by mypy with the packages: the functions of `from marl import ...` have types."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import assert_type

from marl import TrainResult, __version__, load, play, team_env, train
from marl.envs.team_batch import TeamBatch
from marl.envs.team_sb3_env import TeamSb3Env
from marl.envs.team_torchrl_env import TeamTorchrlEnv
from marl.envs.team_vector_env import TeamVectorEnv
from opponents.players import Player, Policy
from opponents.results import Results


def use_it() -> None:
    """Never called."""
    run = assert_type(train("smoke", max_episodes=8, callback=lambda values: values["episode"] < 4), TrainResult)
    assert_type(run.path, Path)
    assert_type(run.resume(max_episodes=16).complete, bool)
    assert_type(train("smoke", seeds=[1, 2], max_episodes=8), list[TrainResult])
    assert_type(train("smoke", dry_run=True), dict[str, Any])
    assert_type(load(run), Player)
    results = assert_type(play(run, Policy(lambda row: 0), matches=4), Results)
    assert_type(results.win_rate, float)
    assert_type(team_env("level1"), TeamVectorEnv)
    assert_type(team_env("level1", 8, api="gymnasium").step(np.zeros(24, int))[0], np.ndarray)
    assert_type(team_env(api="sb3"), TeamSb3Env)
    assert_type(team_env(api="torchrl"), TeamTorchrlEnv)
    batch = assert_type(team_env(load("level1"), agent="team", api="torch"), TeamBatch)
    assert_type(batch.step(torch.zeros(64, 3, dtype=torch.int8)).obs, torch.Tensor)
    assert_type(__version__, str)
