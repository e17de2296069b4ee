"""Plays and learns with tiny networks; prints resident kilobytes after these numbers of updates. For forking.py."""

from pathlib import Path

import torch

from helpers.collecting import CPU, a_rollout
from marl.config.learner_configs import DdpgConfig
from marl.config.sections import NetworkConfig
from marl.learners.ddpg import Ddpg
from marl.learners.precision import Precision
from marl.ranks.process_group import Solo


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def main(*words: str) -> int:
    marks = [int(word) for word in words]
    torch.set_num_threads(1)
    rollout = a_rollout(4, turns=64, opponents=("level0", "level1"))
    learner = Ddpg(
        DdpgConfig(batch_size=24, a_lr=1e-3, c_lr=1e-3),
        NetworkConfig(body=(8,)),
        rollout.buffer,
        Solo(CPU),
        Precision("fp32", CPU),
    )
    rollout.start()
    rollout.set_mix({"level0": 0.5, "level1": 0.5})
    rollout.epsilon.fill_(0.1)
    for _ in range(8):
        rollout.play_turn(learner.act)
    for update in range(1, max(marks) + 1):
        if update % 10 == 0:
            rollout.play_turn(learner.act)
        learner.update(learner.sampler.draw())
        if update % 100 == 0:
            rollout.pop_results()
            assert torch.isfinite(learner.pop_stats()).all()
        if update in marks:
            print(resident(), flush=True)
    return 0
