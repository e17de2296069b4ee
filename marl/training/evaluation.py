"""Evaluation inside a training run: the same matches each time, against fixed opponents (not `snakes eval`).

The command `snakes eval`, for any two players, is marl/commands/eval.py. Both play by opponents.match.play.
"""

from dataclasses import dataclass

import torch

from arena.encoders import Encoder
from arena.render.export import gif_bytes
from arena.replay import Replay
from marl.config.evaluation_config import EvalConfig
from marl.networks.actors import AnyActor
from marl.networks.policy import PolicyPlayer
from marl.planning.planned_player import load_player
from opponents.match import Results, play

GIF_CELL = 16  # pixels
EVAL_SEED = 1_000_003  # added to the run's seed: these matches are never trained on


@dataclass(frozen=True)
class Evaluation:
    """The team's results against each opponent."""

    results: dict[str, Results]

    @property
    def points(self) -> float:
        """Mean share of the points over the opponents; the checkpoint with the most points is `best`."""
        return sum(result.points for result in self.results.values()) / len(self.results)

    @property
    def best_replay(self) -> Replay | None:
        """The match with the largest lead over the last (hardest) opponent, if it was recorded."""
        return list(self.results.values())[-1].replays.get("best")

    def best_gif(self) -> bytes | None:
        """The best replay as a small GIF; drawing it takes seconds."""
        return gif_bytes(self.best_replay, cells=(GIF_CELL,)) if self.best_replay else None

    def metrics(self) -> dict[str, float]:
        """Values for TensorBoard, by tag."""
        values = {f"eval/win_rate_{name}": result.win_rate for name, result in self.results.items()}
        scores = {f"eval/score_{name}": result.home_score for name, result in self.results.items()}
        return {**values, **scores, "eval/points": self.points}


def evaluate(
    actor: AnyActor, encoder: Encoder, config: EvalConfig, device: torch.device, seed: int, record: bool = False
) -> Evaluation:
    """Play against all opponents; with `record`, keep replays of the matches against the last one."""
    results = {}
    for name in config.eval_opponents:
        player = PolicyPlayer(actor, encoder, "team")
        keep = record and name == config.eval_opponents[-1]
        results[name] = play(player, name, config.eval_matches, device, seed + EVAL_SEED, keep, loader=load_player)
    return Evaluation(results)
