"""TeamVectorEnv: many matches of one team against a fixed opponent, as a Gymnasium VectorEnv.

B = matches, W = width of the encoder, N = num_envs. Half of the matches are played as red, half as blue.

    agent "snake": N = 3 B. Every snake of the team is an environment of its own, with obs [N, W] and actions [N].
    agent "team":  N = B. A team is one environment, with obs [N, 3, W], actions [N, 3] and the sum of three rewards.

Actions: 0 up, 1 down, 2 left, 3 right; with the encoders `canonical` and `egocentric`, of the board as the snake sees
it. infos hold `action_mask` [..., 4], in which the reversal is False. A match ends by termination, and the next one
starts in the same step (AutoresetMode.SAME_STEP). infos then hold `final_obs`, `score` and `foe_score` (length gained
by either team), valid where `_final_obs` [N] is True.
"""

from typing import Any, Literal

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from arena import BatchArena
from arena.backends.loops import item_loop
from arena.encoders import encoder_named
from arena.encoders.orientation import BOARD_ACTIONS
from arena.errors import ArenaError
from arena.jit import njit
from arena.rules import LENGTH, SNAKES, START_LENGTH, TEAM
from marl.errors import UserError
from marl.rewards import PRESETS, RewardWeights, reward_of
from opponents.players import Player
from opponents.submission import Submission

ACTIONS = 4


@njit
def write_reward(i, state, events, seats, weights, rewards):
    """The reward of seat i for the turn just played."""
    b = int(seats[i]) // SNAKES
    over = events.over[b]
    snake = int(seats[i]) % SNAKES
    rewards[i] = reward_of(state[b], events.ate[b], events.died[b], events.reward[b], over, snake, weights)


write_rewards = item_loop(write_reward)


class TeamVectorEnv(VectorEnv):
    """See the top of this file."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(
        self,
        opponent: Player,
        matches: int,
        agent: Literal["snake", "team"] = "snake",
        encoder: str = "features",
        reward: str | RewardWeights = "team",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if agent not in ("snake", "team"):
            raise UserError(f"agent is {agent!r}; allowed: snake, team")
        if isinstance(reward, str) and reward not in PRESETS:
            raise UserError(f"reward is {reward!r}; allowed: {', '.join(PRESETS)}, or RewardWeights(...)")
        if isinstance(opponent, Submission):
            raise UserError(f"{opponent.name}: a submission plays whole matches; it cannot be the opponent of team_env")
        self.opponent, self.matches, self.encoder = opponent, matches, encoder_named(encoder)
        self._by_team = agent == "team"
        self._shape: tuple[int, ...] = (matches, TEAM) if self._by_team else (matches * TEAM,)
        self.num_envs = self._shape[0]
        self._weights = torch.tensor(PRESETS[reward] if isinstance(reward, str) else reward)
        self.single_observation_space, self.single_action_space = self._spaces()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._make_arena(seed, device)

    def _spaces(self) -> tuple[Space, Space]:
        low, high, dtype = self.encoder.low, self.encoder.high, self.encoder.dtype
        if self._by_team:
            return Box(np.stack([low] * TEAM), np.stack([high] * TEAM), dtype=dtype), MultiDiscrete([ACTIONS] * TEAM)
        return Box(low, high, dtype=dtype), Discrete(ACTIONS)

    def _make_arena(self, seed: int, device: str | torch.device) -> None:
        self.arena = arena = BatchArena(self.matches, device, seed)
        first = torch.arange(self.matches, dtype=torch.int32) * SNAKES
        first[self.matches // 2 :] += TEAM  # the second half of the matches as blue
        snakes = torch.arange(TEAM, dtype=torch.int32)
        self._seats = (first[:, None] + snakes).flatten().to(arena.device)
        other = first - first % SNAKES + (TEAM - first % SNAKES)
        self._foe_seats = (other[:, None] + snakes).flatten().to(arena.device)
        self._actions = torch.zeros(self.matches, SNAKES, dtype=torch.int8, device=arena.device)
        self._rewards = torch.zeros(len(self._seats), device=arena.device)
        weights = self._weights.to(arena.device)
        turn = (arena.state, arena.events, self._seats, weights, self._rewards)
        self._write_rewards = write_rewards.bind(len(self._seats), arena.device, *turn)
        self._obs: torch.Tensor | None = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all matches: those of a seed from its first one, or without a seed the next ones."""
        if isinstance(seed, list):
            raise UserError("the matches of a TeamVectorEnv follow from one seed; a list of seeds is not allowed")
        if seed is not None:
            self._make_arena(seed, self.arena.device)
        self.arena.start()
        self.opponent.begin(self.arena, self._foe_seats)
        return self._observe(), {"action_mask": self._action_mask()}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one turn of all matches; those that end start anew."""
        if self._obs is None:
            raise ArenaError("no match has been started; call reset() first")
        arena = self.arena
        self.opponent.act(arena, self._foe_seats, self._actions)
        self._actions.view(-1)[self._seats.long()] = self._board_actions(actions)
        over = arena.play_turn(self._actions).over
        self._write_rewards()
        rewards = self._rewards.cpu().numpy().astype(np.float64).reshape(self._shape)
        ended = over.cpu().numpy().copy()
        infos: dict[str, Any] = {}
        if ended.any():
            infos |= self._final_infos(ended)
            arena.start(over)
        obs = self._observe()
        terminated = ended if self._by_team else ended.repeat(TEAM)
        infos["action_mask"] = self._action_mask()
        return obs, rewards.sum(1) if self._by_team else rewards, terminated, np.zeros_like(terminated), infos

    def close_extras(self, **options: Any) -> None:
        """Free what the opponent holds."""
        self.opponent.close()

    def _board_actions(self, actions: Any) -> torch.Tensor:
        given = np.asarray(actions.cpu() if isinstance(actions, torch.Tensor) else actions)
        if given.shape != self._shape or given.dtype.kind not in "iu":
            raise ArenaError(f"actions are {given.dtype} {list(given.shape)}; need whole numbers {list(self._shape)}")
        if given.size and not (given.min() >= 0 and given.max() < ACTIONS):
            raise ArenaError(f"actions run from {given.min()} to {given.max()}; allowed: 0 up, 1 down, 2 left, 3 right")
        local = given.reshape(-1).astype(np.int64)
        orientations = self.encoder.orientations(self._obs).cpu().numpy().astype(np.int64)
        return torch.from_numpy(BOARD_ACTIONS[orientations, local]).to(self._actions)

    def _observe(self) -> np.ndarray:
        """New arrays at each call: they stay as they are."""
        self._obs = self.arena.observe(self.encoder.name, self._seats)
        return self._obs.cpu().numpy().reshape(*self._shape, self.encoder.width)

    def _action_mask(self) -> np.ndarray:
        at = self.encoder.direction_at
        facing = self._obs[:, at : at + ACTIONS].cpu().numpy().astype(bool)
        reversal = facing[:, [1, 0, 3, 2]]  # by action: whether it is against the snake's direction
        return ~reversal.reshape(*self._shape, ACTIONS)

    def _final_infos(self, ended: np.ndarray) -> dict[str, Any]:
        """What is known of the matches that have just ended."""
        lengths = self.arena.state[:, LENGTH : LENGTH + SNAKES].cpu().numpy().astype(np.int64)
        scores = lengths.reshape(self.matches, 2, TEAM).sum(2) - TEAM * START_LENGTH
        scores[self.matches // 2 :] = scores[self.matches // 2 :, ::-1]  # the own team first
        own, foe = (scores[:, i] if self._by_team else scores[:, i].repeat(TEAM) for i in (0, 1))
        mask = ended if self._by_team else ended.repeat(TEAM)
        found = {"final_obs": self._observe(), "score": own, "foe_score": foe}
        return found | {f"_{name}": mask for name in found}
