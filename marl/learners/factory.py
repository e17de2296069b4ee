"""The learner and the match assignment that a configuration asks for.

A mistake in a user's stem is told before the run begins, in one line.
"""

import torch
from torch import nn

from arena.encoders import Encoder, encoder_named
from arena.rng import NUMBER_BATCHES, match_key
from arena.rules import ACTIONS
from marl import plugins, registry
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.networks.spec import NetworkSpec, spec_from_config
from marl.networks.stems import make_stem
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.assignment import MatchAssignment, assign_matches
from marl.rollout.frozen_seats import PAST_SELVES
from opponents.scheduler import Scheduler

ROWS = 6  # observations of two teams


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


def check_building(encoder: Encoder, spec: NetworkSpec) -> None:
    """UserError if the stem cannot be built on the device `meta`, on which files are checked before they are loaded."""
    try:
        with torch.device("meta"):
            sum(tensor.numel() for tensor in make_stem(encoder, spec).state_dict().values())
    except Exception as error:  # of any kind: it is code of a user
        raise UserError(
            f"network kind {spec.stem} cannot be built from (encoder, spec) on torch's device meta: "
            f"{plugins.describe_error(error)}"
        ) from error


def check_outputs(stem: nn.Module, encoder: Encoder, spec: NetworkSpec) -> None:
    """UserError if the stem does not map observations [N, W] to [N, spec.body[0]]."""
    obs = torch.from_numpy(encoder.low.copy()).repeat(ROWS, 1)
    obs = obs.to(next((parameter.device for parameter in stem.parameters()), "cpu"))
    try:
        with torch.no_grad():
            found = tuple(stem(obs).shape)
    except Exception as error:  # of any kind: it is code of a user
        raise UserError(
            f"network kind {spec.stem} cannot read observations {list(obs.shape)} of {obs.dtype}: "
            f"{plugins.describe_error(error)}"
        ) from error
    if found != (ROWS, spec.body[0]):
        raise UserError(
            f"network kind {spec.stem} maps {list(obs.shape)} to {list(found)}; need {[ROWS, spec.body[0]]}: the first "
            "number of --body is its width"
        )
