"""The golden losses of a tiny PPO: 20 updates on a CPU, in golden_ppo.json. A change that is meant to change them makes
them anew by `.venv/bin/python tests/helpers/golden_ppo.py`, run in the repository.

Moves are drawn from the answers of a fixed actor of whole numbers, and what the network thinks of them is noted: so
another CPU, which rounds otherwise, plays the same matches, and its losses differ by no more than its rounding.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from marl.rollout.ppo_loops import ENTROPY, KL, POLICY, VALUE

from helpers.collecting import WholeNumbers
from helpers.ppo_rounds import a_ppo, batches_of, means
from marl.config.reward_config import RewardConfig
from marl.networks.spec import ACTIONS

FILE = Path(__file__).resolve().parents[1] / "data" / "golden_ppo.json"
ALGOS = ("ppo", "ppo_lstm")
NUMBERS = {"policy": POLICY, "value": VALUE, "entropy": ENTROPY, "kl": KL}
NOISE = {"policy": 2e-5, "value": 1e-5, "entropy": 1e-5, "kl": 2e-6}  # of sums of numbers that are far larger
SEED, ROUNDS = 7, 5


def curve(algo: str) -> list[dict[str, float]]:
    """The losses of every update: five rounds of two batches, twice."""
    options = {
        "gamma": 0.97, "gae_lambda": 0.9, "clip": 0.05, "value_clip": 0.3, "value_weight": 0.5, "lr": 1e-2,
        "lr_end": 0.5, "entropy": 0.02, "entropy_end": 0.001, "max_grad_norm": 0.5, "batch_size": 120, "epochs": 2,
    }  # fmt: skip
    mix, reward = {"level0": 0.5, "level2": 0.5}, RewardConfig(preset="team")
    recurrent = algo == "ppo_lstm"
    learner, rollout = a_ppo(8, 10, mix, SEED, recurrent=recurrent, reward=reward, spread=0.3, **options)
    fixed = WholeNumbers(rollout.encoder, SEED)
    batches = batches_of(learner)

    def moves(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat((fixed(rows), torch.zeros(len(rows), learner.answers - ACTIONS)), 1)

    def note() -> None:
        rollout.outputs.copy_(learner.act(rollout.obs))
        learner.record_step()

    rollout.start(moves)
    for number in range(ROUNDS):
        for _ in range(learner.turns):
            rollout.play_turn(moves, note)
        learner.anneal(1.0, number / ROUNDS)
        learner.learn()
    return [{name: numbers[column] for name, column in NUMBERS.items()} for numbers in means(batches)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden = {algo: [{k: float(f"{v:.7g}") for k, v in line.items()} for line in curve(algo)] for algo in ALGOS}
    lines = [f'"{algo}": [\n' + ",\n".join(map(json.dumps, golden[algo])) + "\n]" for algo in ALGOS]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
