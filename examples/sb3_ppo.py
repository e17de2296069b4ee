"""Stable-Baselines3's PPO on this arena: trains against level1, then plays 20 matches against level0.

python -m pip install stable-baselines3
python examples/sb3_ppo.py [STEPS]          # steps of single snakes; 300,000 by default

Measured: 30 % of 20 matches won (15 to 52 %) after 6,144 steps, 55 % (34 to 74 %) after 100,000.
"""

import sys

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from marl import play, team_env
from opponents.players import Policy


class Sb3Env(VecEnv):
    """A TeamVectorEnv as SB3 wants it; every snake of the team is an environment."""

    def __init__(self, env) -> None:
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self):
        return self.env.reset()[0]

    def step_async(self, actions) -> None:
        self.actions = actions

    def step_wait(self):
        obs, rewards, ended, _, infos = self.env.step(self.actions)
        each = [{"terminal_observation": infos["final_obs"][i]} if end else {} for i, end in enumerate(ended)]
        return obs, rewards.astype(np.float32), ended, each

    def close(self) -> None:
        self.env.close()

    def get_attr(self, name, indices=None):
        return [getattr(self.env, name, None)] * self.num_envs

    def set_attr(self, name, value, indices=None) -> None:
        setattr(self.env, name, value)

    def env_method(self, name, *arguments, indices=None, **options):
        return [getattr(self.env, name)(*arguments, **options)]

    def env_is_wrapped(self, wrapper, indices=None):
        return [False] * self.num_envs


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    env = Sb3Env(team_env("level1", matches=32, reward="score", seed=1))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=1024, gamma=0.97, ent_coef=0.005, seed=1, device="cpu")
    model.learn(steps, progress_bar=False)
    results = play(Policy(model, name="sb3"), "level0", matches=20)
    print(f"won {results.win_rate:.1%} ({results.win_rate_low:.1%} to {results.win_rate_high:.1%}) against level0")
