"""The golden losses of a tiny PPO: 20 updates on a CPU, in golden_ppo.json. A change that is meant to change them makes
them anew by `.venv/bin/python tests/helpers/golden_ppo.py`, run in the repository.

Actions are drawn from the outputs of a fixed actor of whole numbers, and the network's log-probabilities and values of
them are recorded: so another CPU, which rounds differently, plays the same matches, and its losses differ by no more
than its rounding.
"""

import json
import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests.parent), str(tests)]

import pytest
import torch

from arena.rules import ACTIONS
from helpers.collecting import WholeNumbers
from helpers.ppo_rounds import a_ppo, batches_of, means
from marl.config.sections import RewardConfig
from marl.learners.ppo import Ppo
from marl.rollout.rollout import Rollout

FILE = Path(__file__).resolve().parents[1] / "data" / "golden_ppo.json"
ALGOS = ("ppo", "ppo_lstm")
COLUMNS = ("policy", "value", "entropy", "kl")  # of the statistics of ppo_loss
NOISE = {"policy": 2e-5, "value": 1e-5, "entropy": 1e-5, "kl": 2e-6}  # of sums of numbers that are far larger
SEED, ROUNDS = 7, 5


def curve(algo: str) -> list[dict[str, float]]:
    """The losses of every update: five rounds of two minibatches, twice."""
    options = {
        "gamma": 0.97, "gae_lambda": 0.9, "clip": 0.05, "value_clip": 0.3, "value_weight": 0.5, "lr": 1e-2,
        "lr_end": 0.5, "entropy": 0.02, "entropy_end": 0.001, "max_grad_norm": 0.5, "batch_size": 120, "epochs": 2,
    }  # fmt: skip
    mix, reward = {"level0": 0.5, "level2": 0.5}, RewardConfig(preset="team")
    recurrent = algo == "ppo_lstm"
    learner, rollout = a_ppo(8, 10, mix, SEED, recurrent=recurrent, reward=reward, spread=0.3, **options)
    fixed = WholeNumbers(rollout.encoder, SEED)

    def policy(obs: torch.Tensor) -> torch.Tensor:
        return torch.cat((fixed(obs), torch.zeros(len(obs), learner.outputs - ACTIONS)), 1)

    rollout.start(policy)
    with pytest.MonkeyPatch.context() as patch:
        batches = batches_of(learner, patch)
        answer = partial(_answer, learner, rollout)  # before log-probability and value of the actions are recorded
        patch.setattr(rollout, "_record", [answer, *rollout._record])
        for number in range(ROUNDS):
            learner.begin_round()
            for _ in range(learner.turns):
                rollout.play_turn(policy)
            learner.anneal(1.0, number / ROUNDS)
            learner.learn()
    return [dict(zip(COLUMNS, stats, strict=False)) for stats in means(batches)]


def _answer(learner: Ppo, rollout: Rollout) -> None:
    rollout.outputs.copy_(learner.act(rollout.obs))


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden = {algo: [{k: float(f"{v:.7g}") for k, v in line.items()} for line in curve(algo)] for algo in ALGOS}
    lines = [f'"{algo}": [\n' + ",\n".join(map(json.dumps, golden[algo])) + "\n]" for algo in ALGOS]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
