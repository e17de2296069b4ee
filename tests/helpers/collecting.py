"""Rollouts for tests: a rollout and its buffer, and an actor whose outputs do not depend on the batch."""

from collections.abc import Sequence

import torch

from arena.encoders import Encoder, encoder_named
from marl.config.sections import RewardConfig
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.learners.replay_buffer import ReplayBuffer
from marl.networks.spec import NetworkSpec
from marl.rollout.assignment import MatchAssignment
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout

CPU = torch.device("cpu")


def a_buffer(turns: int, teams: int, encoder: str = "features", **options) -> ReplayBuffer:
    return ReplayBuffer(turns, teams, encoder_named(encoder), CPU, **({"key": 99} | options))


def a_copy(filled: ReplayBuffer) -> ReplayBuffer:
    """The same turns in a buffer that counts its batches from 0."""
    fresh = a_buffer(filled.turns, filled.teams)
    for name in ("obs", "actions", "rewards", "terminated", "counts"):
        getattr(fresh, name).copy_(getattr(filled, name))
    return fresh


def a_rollout(
    matches: int | MatchAssignment,
    turns: int = 8,
    opponents: Sequence[str] = ("level0", "level1", "level2"),
    seed: int = 1,
    encoder: str = "features",
    reward: RewardConfig | None = None,
    **options,
) -> Rollout:
    """A rollout with a buffer of this many turns; options are rank, world, first_match, outputs and masks_reversal."""
    assignment = matches if isinstance(matches, MatchAssignment) else MatchAssignment(matches)
    weights = (reward or RewardConfig()).weights()
    return Rollout(assignment, opponents, weights, a_buffer(turns, assignment.teams, encoder), seed, **options)


class WholeNumbers:
    """A fixed actor that calculates with small whole numbers: exact, so the same for a row in any batch."""

    spec = NetworkSpec(body=())

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._weights = torch.randint(-3, 4, (encoder.width, 4), generator=generator).float()

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        return (obs.float() @ self._weights) / 32

    def initial_state(self, snakes: int, device: torch.device) -> None:
        """No hidden state."""

    def step(
        self, obs: torch.Tensor, is_first: torch.Tensor, hidden: None, out: None = None
    ) -> tuple[torch.Tensor, None]:
        return self(obs), None


def started(rollout: Rollout, epsilon: float = 0.1) -> Rollout:
    """The rollout with its matches under way."""
    rollout.start()
    rollout.epsilon.fill_(epsilon)
    return rollout


def seat_frozen_players(rollout: Rollout, past_selves: Sequence, itself=None) -> Rollout:
    """Let past selves play the seats of past selves, and `itself` the other side of one-sided self-play."""
    seats, players = list(rollout.past_self_seats), list(past_selves)
    if len(rollout.self_play_seats):
        seats.append(rollout.self_play_seats)
        players.append(itself)
    precision = Precision("fp32", CPU)
    frozen = [FrozenSeats(player, rollout, each, precision) for player, each in zip(players, seats, strict=True)]
    rollout.frozen_players = [seats.play for seats in frozen]
    return rollout


def a_filled_buffer(seed: int) -> ReplayBuffer:
    """Sixty turns of real matches, some of which ended."""
    rollout = a_rollout(16, turns=60, opponents=("level0", "level1"), seed=seed)
    rollout.start()
    rollout.set_mix({"level0": 0.5, "level1": 0.5})
    rollout.epsilon.fill_(0.3)
    for _ in range(70):
        rollout.play_turn(WholeNumbers(rollout.encoder, seed))
    assert rollout.buffer.terminated.any()
    return rollout.buffer


def add_weight_noise(learner: Learner, seed: int) -> None:
    """Initial outputs are nearly 0 everywhere, and targets equal the online networks: not so with noise."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for net in learner.networks().values():
            for parameter in net.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
