"""Evaluation inside a training run: the same matches each time, against fixed opponents (not `snakes eval`).

The command `snakes eval`, for any two players, is marl/commands/eval.py. Both play by opponents.match.
"""

from dataclasses import dataclass

from arena.encoders import Encoder
from arena.errors import ArenaError
from arena.render.export import gif_bytes
from arena.replay import Replay
from marl.config.evaluation_config import EvalConfig
from marl.errors import UserError
from marl.networks.actors import AnyActor
from marl.networks.policy import PolicyPlayer
from marl.planning.planned_player import load_player
from marl.ranks.process_group import Ranks, Solo
from opponents.match import PlayedMatches, Results, play_some, summarise
from opponents.submission import SubmissionOptions

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
    actor: AnyActor, encoder: Encoder, config: EvalConfig, group: Solo | Ranks, seed: int, record: bool = False
) -> Evaluation | None:
    """Play against all opponents, the matches shared out over the ranks. A collective; returns it on rank 0 only.

    Ranks that are done wait for the others as long as these are alive. With `record`, replays of the matches against
    the last opponent are kept.
    """
    mine: dict[str, PlayedMatches] = {}
    problem = None
    with group.keep_alive():
        try:
            mine = _play_share(actor, encoder, config, group, seed + EVAL_SEED, record)
        except (UserError, ArenaError) as error:
            problem = str(error)
    shares = group.gather((mine, problem)) or []
    problem = group.share(next((problem for _, problem in shares if problem is not None), None))
    if problem is not None:  # of any rank: all ranks end
        raise UserError(problem)
    return _join_shares(config, [played for played, _ in shares if played], seed + EVAL_SEED) if shares else None


def share_of_matches(matches: int, rank: int, world: int) -> range:
    """The numbers of the matches that a rank plays: consecutive, and equally many on all ranks or one more."""
    return range(matches * rank // world, matches * (rank + 1) // world)


def _play_share(
    actor: AnyActor, encoder: Encoder, config: EvalConfig, group: Solo | Ranks, seed: int, record: bool
) -> dict[str, PlayedMatches]:
    """Play this rank's matches on its device, by opponent; empty if it has none."""
    numbers = share_of_matches(config.eval_matches, group.rank, group.world)
    played = {}
    for name in config.eval_opponents if numbers else ():
        player = PolicyPlayer(actor, encoder, "team")
        keep = record and name == config.eval_opponents[-1]
        played[name] = play_some(
            player,
            name,
            config.eval_matches,
            numbers,
            group.device,
            seed,
            keep,
            loader=load_player,
            submissions=SubmissionOptions(config.uncaged),
        )
    return played


def _join_shares(config: EvalConfig, shares: list[dict[str, PlayedMatches]], seed: int) -> Evaluation:
    """The evaluation from the shares of the ranks, in their order."""
    return Evaluation({name: summarise([share[name] for share in shares], seed) for name in config.eval_opponents})
