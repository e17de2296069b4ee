"""The learner and the match assignment that a configuration asks for."""

from arena.rng import NUMBER_BATCHES, match_key
from marl import registry
from marl.compute.precision import Precision
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.learner import Learner
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.assignment import MatchAssignment, assign_matches
from marl.rollout.frozen_seats import PAST_SELVES
from opponents.scheduler import Scheduler


def make_assignment(config: TrainConfig, scheduler: Scheduler, shards: int | None = None) -> MatchAssignment:
    """Which of a rank's matches are self-play, against past selves or named players; each of its shards has its own.

    A UserError if the share of a named player is less than half a pair of matches: one as red and one as blue.
    """
    schedule = config.schedule
    one_sided = 0.0 if schedule.learn_both_sides else schedule.self_play
    shares = (schedule.self_play - one_sided, one_sided, scheduler.past_share())
    named, matches = schedule.shares, config.matches // (shards or 1)
    assignment = assign_matches(matches, *shares, PAST_SELVES, tuple(named.values()))
    for (name, share), slots in zip(named.items(), assignment.named, strict=True):
        if not slots:
            raise UserError(
                f"opponents: the share {share:g} of {name} is less than two of {matches} matches; give it a larger "
                "share, or more --matches"
            )
    return assignment.repeat(shards or 1)


def make_learner(
    config: TrainConfig, assignment: MatchAssignment, group: Solo | Ranks, precision: Precision
) -> Learner:
    """The learner, with its buffer for the teams of this rank that learn."""
    shards = assignment.shards
    keys = [int(match_key(config.seed, NUMBER_BATCHES + group.rank * shards + shard)) for shard in range(shards)]
    cls = registry.load(registry.LEARNERS, config.algo)
    return cls.from_config(config, assignment.teams, group, precision, keys)
