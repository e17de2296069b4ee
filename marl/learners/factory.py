"""Which learner a configuration asks for, with the memory that belongs to it."""

import torch

from arena.batch import encoder_named
from arena.rng import NUMBER_BATCHES, match_key
from arena.rules import TEAM
from marl.compute.precision import Precision
from marl.config.autoscale import free_memory
from marl.config.schema import TrainConfig
from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.learners.replay_buffer import ReplayBuffer
from marl.learners.rollout_buffer import Trajectories
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.assignment import LineUp, deal
from marl.rollout.frozen_seats import PLACES
from opponents.scheduler import Scheduler

Learner = Ddpg | Ppo


def line_up_of(config: TrainConfig, scheduler: Scheduler) -> LineUp:
    """Who sits where in each rank's matches."""
    schedule, past = config.schedule, scheduler.past_share()
    alone = 0.0 if schedule.learn_both_sides else schedule.self_play
    return deal(config.matches, schedule.self_play - alone, alone, past, PLACES)


def learner_of(config: TrainConfig, line_up: LineUp, group: Solo | Ranks, precision: Precision) -> Learner:
    """The learner, with its memory for the teams of this rank that learn."""
    encoder, device = encoder_named(config.network.encoder), group.device
    key = int(match_key(config.seed, NUMBER_BATCHES + group.rank))
    if config.algo == "ddpg":
        turns = config.ddpg.buffer_size // (TEAM * line_up.teams)
        need = turns * line_up.teams * TEAM * encoder.width
        storage = torch.device("cpu") if device.type == "cuda" and need > 0.8 * free_memory(device) else device
        buffer = ReplayBuffer(turns, line_up.teams, encoder, device, key, storage)
        rest = (group, precision, config.ddp.sync_freq, config.seed, config.mask_reversal)
        return Ddpg(config.ddpg, config.network, buffer, *rest)
    turns = max(1, round(config.ppo.update_interval / (config.matches * group.world)))
    memory = Trajectories(turns, line_up.teams, encoder, device, key)
    rest = (group, precision, config.ddp.sync_freq, config.seed, config.algo == "ppo_lstm")
    return Ppo(config.ppo, config.network, memory, *rest)
