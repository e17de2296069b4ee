"""Matches to learn from, for tests: a rollout and its buffer, and an actor whose answers do not depend on the batch."""

from collections.abc import Sequence

import torch

from arena.batch import encoder_named
from arena.observe import Encoder
from marl.config import RewardConfig
from marl.replay_buffer import ReplayBuffer
from marl.rollout import Rollout

CPU = torch.device("cpu")


def a_buffer(turns: int, matches: int, encoder: str = "features", **options) -> ReplayBuffer:
    return ReplayBuffer(turns, matches, encoder_named(encoder), CPU, **({"key": 99} | options))


def a_rollout(
    matches: int,
    turns: int = 8,
    opponents: Sequence[str] = ("level0", "level1", "level2"),
    seed: int = 1,
    encoder: str = "features",
    reward: RewardConfig | None = None,
    **options,
) -> Rollout:
    """A rollout into a buffer of so many turns; options are its rank, world and first match."""
    weights = (reward or RewardConfig()).weights()
    return Rollout(matches, opponents, weights, a_buffer(turns, matches, encoder), seed, **options)


class WholeNumbers:
    """A fixed actor that calculates with small whole numbers: exact, so the same for a row in any batch."""

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._weights = torch.randint(-3, 4, (encoder.width, 4), generator=generator).float()

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows.float() @ self._weights) / 32
