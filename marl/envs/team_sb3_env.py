"""TeamSb3Env: a TeamBatch as a Stable-Baselines3 VecEnv; needs the package stable-baselines3.

infos of an environment hold `TimeLimit.truncated` (always False) and, after the last turn of a match,
`terminal_observation`, `score` and `foe_score`. MaskablePPO of sb3-contrib reads `action_masks`.
For episode returns in the log wrap it in VecMonitor, like any other VecEnv.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from arena.extras import install_hint
from marl.envs.team_batch import TeamBatch
from marl.envs.team_vector_env import team_spaces
from marl.errors import UserError

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("stable_baselines3"):
        raise
    raise UserError(f"api='sb3' needs the package stable-baselines3; {install_hint('sb3')}") from None

Indices = int | Iterable[int] | None


class TeamSb3Env(VecEnv):
    """See the top of this file."""

    render_mode: str | None = None

    def __init__(self, batch: TeamBatch) -> None:
        self.batch = batch
        self._next_actions: Any = None
        super().__init__(batch.num_envs, *team_spaces(batch))

    def reset(self) -> np.ndarray:
        """Start all matches: after `seed(s)` from match 0 of seed s, else the next ones."""
        obs, _ = self.batch.reset(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return obs.cpu().numpy()

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions of the next turn."""
        self._next_actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play one turn of all matches; those that end start anew."""
        turn = self.batch.step(self._next_actions)
        obs, rewards, dones = (tensor.cpu().numpy() for tensor in turn[:3])
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        if dones.any():
            final, score, foe_score = (turn.infos[name].cpu().numpy() for name in ("final_obs", "score", "foe_score"))
            for i in dones.nonzero()[0]:
                infos[i] |= {"terminal_observation": final[i], "score": int(score[i]), "foe_score": int(foe_score[i])}
        return obs, rewards, dones, infos

    def action_masks(self) -> np.ndarray:
        """[N, 4], or [N, 12] for teams: False for the reversal."""
        return self.batch.action_mask().view(self.num_envs, -1).cpu().numpy()

    def close(self) -> None:
        """Free what the opponent holds."""
        self.batch.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The value of an attribute, which is the same for all environments."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute for all environments."""
        if indices is not None:
            raise UserError(f"{attr_name}: all matches of team_env share their attributes; leave indices out")
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """`action_masks` of each environment; there is no other method."""
        if method_name != "action_masks":
            raise AttributeError(f"an environment of team_env has no method {method_name!r}; it has action_masks")
        masks = self.action_masks()
        return [masks[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """No environment is wrapped."""
        return [False for _ in self._get_indices(indices)]
