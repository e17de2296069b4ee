"""Stable-Baselines3's PPO on this arena: trains against level1, then plays 200 matches each against level0 and level1.

python -m pip install stable-baselines3
python examples/sb3_ppo.py [STEPS]          # steps of single snakes; 300,000 by default

Measured: 98.5 % won against level0 (95.7 to 99.5 %), 87.0 % against level1, after 28 s of one core.
"""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from marl import play, team_env
from opponents.players import Policy


class Scaled(BaseFeaturesExtractor):
    """Observations, which are whole numbers, scaled to about -1 to 1. Without it: 85 % against level0, not 98.5 %."""

    def __init__(self, space, scale) -> None:
        super().__init__(space, features_dim=len(scale))
        self.register_buffer("scale", torch.from_numpy(scale))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs * self.scale


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    env = team_env("level1", matches=64, reward="score", api="sb3")
    model = PPO(
        "MlpPolicy",
        env,
        policy_kwargs={
            "features_extractor_class": Scaled,
            "features_extractor_kwargs": {"scale": env.batch.encoder.scale},
        },
        **{"n_steps": 32, "batch_size": 2048, "n_epochs": 4, "learning_rate": 1e-3},
        **{"gamma": 0.95, "gae_lambda": 0.9, "ent_coef": 0.01, "seed": 1, "device": "cpu"},
    )
    model.learn(steps)
    for foe in ("level0", "level1"):
        results = play(Policy(model, "sb3", batched=True), foe, matches=200)
        print(f"won {results.win_rate:.1%} ({results.win_rate_low:.1%} to {results.win_rate_high:.1%}) against {foe}")
