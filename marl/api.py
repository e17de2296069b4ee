"""The program from Python: train, load, play and team_env, also as `from marl import train, load, play, team_env`.

A mistake raises UserError or ArenaError with the one line that the command line would print.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from marl import plugins
from marl.envs.team_batch import Agent, TeamBatch
from marl.errors import UserError
from marl.planning.planned_player import load_player
from marl.rewards import RewardWeights
from marl.storage.run_names import player_name
from marl.train_api import TrainResult, train
from opponents import match, players
from opponents.results import Results

if TYPE_CHECKING:
    from marl.envs.team_sb3_env import TeamSb3Env
    from marl.envs.team_torchrl_env import TeamTorchrlEnv
    from marl.envs.team_vector_env import TeamVectorEnv

plugins.import_entry_points()  # of installed packages, as the command line does

__all__ = ["TrainResult", "load", "play", "team_env", "train"]

Name = str | os.PathLike[str]  # of a player: a name, a path, or what `train` returns
# Values of `api` of team_env: the module and class that wrap a TeamBatch.
ENVIRONMENTS = {
    "gymnasium": ("team_vector_env", "TeamVectorEnv"),
    "sb3": ("team_sb3_env", "TeamSb3Env"),
    "torchrl": ("team_torchrl_env", "TeamTorchrlEnv"),
    "torch": None,
}


def load(name: Name) -> players.Player:
    """A player by its name or path; names are those of `eval --home`.

    `level3`                    a scripted opponent; `level3:0.2` moves at random in a fifth of the turns
    `champion`                  a trained team that comes with the program
    `last`, `runs/last`         the run that was started last; `run7` and paths name other runs
    RUN/checkpoints/best        a checkpoint, or a snapshot as a .safetensors file
    `plan:champion`             looks ahead with the exact rules; `plan=8x1:NAME`: 8 replies, one turn
    path/to/submission.py       a competitor's file, which plays in a sandbox

    >>> load("champion").name, load("plan:champion").name, load("level3:0.2").name
    ('champion', 'plan:champion', 'level3:0.2')
    """
    return players.find(player_name(os.fspath(name)), load_player)


def play(
    home: Name | players.Player,
    away: Name | players.Player,
    matches: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    record: bool = False,
) -> Results:
    """Play matches between two players: win rate with its 95 % interval, scores, and with `record` four replays.

    Home is red in the first half of the matches and blue in the second. Match k of a seed is always the same match.

    >>> results = play("level3", "level1", matches=20, seed=1)
    >>> results.matches, results.win_rate_low > 0.5
    (20, True)
    """
    names = [player_name(os.fspath(each)) if isinstance(each, (str, os.PathLike)) else each for each in (home, away)]
    return match.play(names[0], names[1], matches, device, seed, record, loader=load_player)


@overload
def team_env(
    opponent: Name | players.Player = ...,
    matches: int = ...,
    agent: Agent = ...,
    encoder: str = ...,
    reward: str | RewardWeights = ...,
    seed: int = ...,
    device: str = ...,
    api: Literal["gymnasium"] = ...,
) -> "TeamVectorEnv": ...


@overload
def team_env(
    opponent: Name | players.Player = ...,
    matches: int = ...,
    agent: Agent = ...,
    encoder: str = ...,
    reward: str | RewardWeights = ...,
    seed: int = ...,
    device: str = ...,
    *,
    api: Literal["sb3"],
) -> "TeamSb3Env": ...


@overload
def team_env(
    opponent: Name | players.Player = ...,
    matches: int = ...,
    agent: Agent = ...,
    encoder: str = ...,
    reward: str | RewardWeights = ...,
    seed: int = ...,
    device: str = ...,
    *,
    api: Literal["torchrl"],
) -> "TeamTorchrlEnv": ...


@overload
def team_env(
    opponent: Name | players.Player = ...,
    matches: int = ...,
    agent: Agent = ...,
    encoder: str = ...,
    reward: str | RewardWeights = ...,
    seed: int = ...,
    device: str = ...,
    *,
    api: Literal["torch"],
) -> "TeamBatch": ...


def team_env(
    opponent: Name | players.Player = "level2",
    matches: int = 64,
    agent: Agent = "snake",
    encoder: str = "features",
    reward: str | RewardWeights = "team",
    seed: int = 0,
    device: str = "cpu",
    api: str = "gymnasium",
) -> Any:
    """Many matches of one team against an opponent, for the library that `api` names.

    api: `gymnasium` (VectorEnv), `sb3` (Stable-Baselines3's VecEnv), `torchrl` (EnvBase), or `torch`: the functions of
    Gymnasium with tensors on the device. What obs, actions and infos hold: marl/envs/team_batch.py.

    >>> env = team_env("level1", matches=2)
    >>> obs, infos = env.reset(seed=7)
    >>> obs.shape, infos["action_mask"].shape
    ((6, 80), (6, 4))
    """
    if api not in ENVIRONMENTS:
        raise UserError(f"api is {api!r}; allowed: {', '.join(ENVIRONMENTS)}")
    name = ENVIRONMENTS[api]
    # The libraries are imported only by those who ask for them.
    wrapper = getattr(import_module(f"marl.envs.{name[0]}"), name[1]) if name else None
    player = load(opponent) if isinstance(opponent, (str, os.PathLike)) else opponent
    batch = TeamBatch(player, matches, agent, encoder, reward, seed, device)
    return wrapper(batch) if wrapper else batch
