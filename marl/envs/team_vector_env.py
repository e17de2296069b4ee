"""TeamVectorEnv: a TeamBatch as a Gymnasium VectorEnv, with numpy arrays; on a CPU they are views of its tensors.

What obs, actions and infos hold is written at the top of marl/envs/team_batch.py. The next match starts in the same
step (AutoresetMode.SAME_STEP).
"""

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from arena.rules import ACTIONS, TEAM
from marl.envs.team_batch import TeamBatch
from marl.errors import UserError


def team_spaces(batch: TeamBatch) -> tuple[Space, Space]:
    """Observation and action space of one environment of a TeamBatch."""
    low, high, dtype = batch.encoder.low, batch.encoder.high, batch.encoder.dtype
    if batch.by_team:
        return Box(np.stack([low] * TEAM), np.stack([high] * TEAM), dtype=dtype), MultiDiscrete([ACTIONS] * TEAM)
    return Box(low, high, dtype=dtype), Discrete(ACTIONS)


class TeamVectorEnv(VectorEnv):
    """See the top of this file."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(self, batch: TeamBatch) -> None:
        self.batch = batch
        self.num_envs = batch.num_envs
        self.single_observation_space, self.single_action_space = team_spaces(batch)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all matches: those of a seed from its first one, or without a seed the next ones."""
        if isinstance(seed, list):
            raise UserError("the matches of a TeamVectorEnv follow from one seed; a list of seeds is not allowed")
        obs, infos = self.batch.reset(seed)
        return obs.cpu().numpy(), {name: value.cpu().numpy() for name, value in infos.items()}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one turn of all matches; those that end start anew."""
        turn = self.batch.step(actions)
        obs, rewards, terminated, truncated = (tensor.cpu().numpy() for tensor in turn[:4])
        infos = {name: value.cpu().numpy() for name, value in turn.infos.items()}
        return obs, rewards.astype(np.float64), terminated, truncated, infos

    def close_extras(self, **options: Any) -> None:
        """Free what the opponent holds."""
        self.batch.close()
