"""Matches to learn from, for tests: a rollout and its buffer, and an actor whose answers do not depend on the batch."""

from collections.abc import Sequence

import torch

from arena.encoders import Encoder, encoder_named
from marl.compute.precision import Precision
from marl.config.reward_config import RewardConfig
from marl.learners.replay_buffer import ReplayBuffer
from marl.rollout.assignment import MatchAssignment
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout

CPU = torch.device("cpu")


def a_buffer(turns: int, teams: int, encoder: str = "features", **options) -> ReplayBuffer:
    return ReplayBuffer(turns, teams, encoder_named(encoder), CPU, **({"key": 99} | options))


def a_rollout(
    matches: int | MatchAssignment,
    turns: int = 8,
    opponents: Sequence[str] = ("level0", "level1", "level2"),
    seed: int = 1,
    encoder: str = "features",
    reward: RewardConfig | None = None,
    **options,
) -> Rollout:
    """A rollout into a buffer of so many turns; options are its rank, world, first match, answers, and mask."""
    line_up = matches if isinstance(matches, MatchAssignment) else MatchAssignment(matches)
    weights = (reward or RewardConfig()).weights()
    return Rollout(line_up, opponents, weights, a_buffer(turns, line_up.teams, encoder), seed, **options)


class WholeNumbers:
    """A fixed actor that calculates with small whole numbers: exact, so the same for a row in any batch."""

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._weights = torch.randint(-3, 4, (encoder.width, 4), generator=generator).float()

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows.float() @ self._weights) / 32

    def remember(self, snakes: int, device: torch.device) -> None:
        """Nothing."""

    def step(self, rows: torch.Tensor, begins: torch.Tensor, memory: None) -> tuple[torch.Tensor, None]:
        return self(rows), None


def with_places(rollout: Rollout, actors: Sequence, alone=None) -> Rollout:
    """Past selves sit down, one in each place, and where the team plays against itself alone, `alone` does."""
    precision = Precision("fp32", CPU)
    seats = [*rollout.past_self_seats, *([rollout.self_play_seats] if len(rollout.self_play_seats) else [])]
    players = [*actors, *([alone] if len(rollout.self_play_seats) else [])]
    places = [FrozenSeats(actor, rollout, here, precision) for actor, here in zip(players, seats, strict=True)]
    rollout.frozen_players = [place.play for place in places]
    return rollout
