"""Small training states on the CPU, for tests that need no whole run."""

import torch

from arena.rules import TURN, TURNS
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.ranks.process_group import Solo
from marl.training.training_state import TrainingState

CPU = torch.device("cpu")
SEED = 17
LEAGUE = ["--opponent_difficulty_strategy", "league"]
SMALL = ["--matches", "16", "--body", "8", "--batch_size", "24", "--device", "cpu"]
SMALL_DDPG = ["--turns", "2", "--updates", "1", "--buffer_size", "2000", "--warmup_turns", "4"]


def small_state(*words: str, seed: int = SEED, overlaps: bool = False) -> TrainingState:
    learner = [] if "--algo" in words else SMALL_DDPG
    config = read_config([*SMALL, *learner, "--seed", str(seed), *words])
    return TrainingState(resolve(config, CPU), Solo(CPU, overlaps))


def trained_weights(state: TrainingState, rounds: int) -> torch.Tensor:
    """All weights of a state after the turns before its first update and these rounds of turns and updates.

    Its matches begin in their last turns, so that some end; to play them up to there would take most of the time.
    """
    learner, arena = state.learner, state.rollout.arena
    warm_up = -(-learner.warmup_turns // learner.turns) + 1
    arena.start()
    arena.state[:, TURN] = TURNS - 1 - torch.arange(arena.matches)
    for played in range(-warm_up, rounds):
        learner.begin_round()
        state.rollout.play_turns(learner.turns, learner.act)
        if played >= 0:
            learner.learn()
    return torch.cat([tensor.flatten() for _, tensor in learner.named_weights()])
