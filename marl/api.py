"""The program from Python: train, load, play and team_env, also as `from marl import train, load, play, team_env`.

A mistake raises UserError or ArenaError with the one line that the command line would print.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marl.commands.train import train_here
from marl.config.values import as_written
from marl.planning.planned_player import load_player
from marl.rewards import RewardWeights
from marl.storage.run_names import player_name
from marl.training.resume_plan import plan_resume
from opponents import match, players

if TYPE_CHECKING:
    from marl.team_vector_env import TeamVectorEnv


def train(config: str | Path | None = None, **options: Any) -> Path:
    """Train a team in this process and return its run folder, which is a player.

    config: a YAML file or the name of a configuration (`smoke`). Options are those of `train --help all`:
    train("smoke", algo="ppo", max_episodes=1000, **{"ppo.lr": 1e-3}). Ctrl-C saves and ends.
    """
    words = [] if config is None else ["--config", str(config)]
    words += [f"--{name}={as_written(value)}" for name, value in options.items()]
    code, folder = train_here(plan_resume(words))
    if folder is None or 0 < code < 128:  # above: a signal, after which the run is saved
        raise RuntimeError(f"training ended with exit code {code}")
    return folder


def load(name: str | Path) -> players.Player:
    """A player by its name: scripted, champion, plan:NAME, run (`last`), checkpoint, snapshot or submission.py."""
    return players.find(player_name(str(name)), load_player)


def play(
    home: str | Path | players.Player,
    away: str | Path | players.Player,
    matches: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    record: bool = False,
) -> match.Results:
    """Play matches between two players: win rate with its 95 % interval, scores, and with `record` four replays."""
    names = [player_name(str(each)) if isinstance(each, (str, Path)) else each for each in (home, away)]
    return match.play(names[0], names[1], matches, device, seed, record, loader=load_player)


def team_env(
    opponent: str | Path | players.Player = "level2",
    matches: int = 64,
    agent: Literal["snake", "team"] = "snake",
    encoder: str = "features",
    reward: str | RewardWeights = "team",
    seed: int = 0,
    device: str = "cpu",
) -> "TeamVectorEnv":
    """Many matches of one team against an opponent, as a Gymnasium VectorEnv; see marl.team_vector_env."""
    from marl.team_vector_env import TeamVectorEnv  # Gymnasium is imported only by those who ask for it

    player = load(opponent) if isinstance(opponent, (str, Path)) else opponent
    return TeamVectorEnv(player, matches, agent, encoder, reward, seed, device)
