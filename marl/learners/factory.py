"""The learner and the match assignment that a configuration asks for."""

from arena.encoders import encoder_named
from arena.rng import NUMBER_BATCHES, match_key
from arena.rules import ACTIONS
from marl import registry
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.networks.spec import spec_from_config
from marl.networks.stem_check import check_building, check_outputs
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.assignment import MatchAssignment, assign_matches
from marl.rollout.frozen_seats import PAST_SELVES
from opponents.scheduler import Scheduler


def make_assignment(config: TrainConfig, scheduler: Scheduler) -> MatchAssignment:
    """Which of a rank's matches are self-play, against past selves or named players.

    A UserError if the share of a named player is less than half a pair of matches: one as red and one as blue.
    """
    schedule = config.schedule
    one_sided = 0.0 if schedule.learn_both_sides else schedule.self_play
    shares = (schedule.self_play - one_sided, one_sided, scheduler.past_share())
    named = schedule.shares
    assignment = assign_matches(config.matches, *shares, PAST_SELVES, tuple(named.values()))
    for (name, share), slots in zip(named.items(), assignment.named, strict=True):
        if not slots:
            raise UserError(
                f"opponents: the share {share:g} of {name} is less than two of {config.matches} matches; give it a "
                "larger share, or more --matches"
            )
    return assignment


def make_learner(
    config: TrainConfig, assignment: MatchAssignment, group: Solo | Ranks, precision: Precision
) -> Learner:
    """The learner, with its buffer for the teams of this rank that learn."""
    encoder = encoder_named(config.network.encoder)
    check_building(encoder, spec_from_config(config.network, ACTIONS))
    key = int(match_key(config.seed, NUMBER_BATCHES + group.rank))
    cls = registry.load(registry.LEARNERS, config.algo)
    learner: Learner = cls.from_config(config, assignment.teams, group, precision, key)
    check_outputs(learner.actor.first, encoder, learner.spec)
    return learner
