"""TeamBatch: many matches of one team against a fixed opponent, as torch tensors on the device of the matches.

B = matches, W = width of the encoder, N = num_envs. Half of the matches are played as red, half as blue.

    agent "snake": N = 3 B. Every snake of the team is an environment of its own, with obs [N, W] and actions [N].
    agent "team":  N = B. A team is one environment, with obs [N, 3, W], actions [N, 3] and the sum of three rewards.

Actions: 0 up, 1 down, 2 left, 3 right; with all encoders but `features` and `planes`, of the board as a snake sees it.

`reset` and `step` are those of a Gymnasium VectorEnv, with tensors: infos hold `action_mask` [..., 4], in which the
reversal is False. A match ends by termination, and the next one starts in the same step; infos then hold `final_obs`,
`score` and `foe_score` (length gained by either team), valid where `_final_obs` [N] is True. Tensors that were handed
out are never overwritten. Other libraries read them without a copy through DLPack.

`start`, `play_turn` and `observe` are the parts of `step`, for libraries that start the next matches themselves.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.backends.loops import item_loop
from arena.encoders import encoder_named
from arena.encoders.orientation import BOARD_ACTIONS
from arena.errors import ArenaError
from arena.jit import njit
from arena.rules import ACTIONS, LENGTH, SNAKES, START_LENGTH, TEAM
from marl.errors import UserError
from marl.rewards import RewardWeights, reward_of, weights_of
from opponents.players import Player
from opponents.submission import Submission

REVERSED = [1, 0, 3, 2]  # by action: the opposite one
Agent = Literal["snake", "team"]


class TeamTurn(NamedTuple):
    """What `step` returns, in Gymnasium's order."""

    obs: torch.Tensor  # [N, W] or [N, 3, W]: int8 or uint8
    rewards: torch.Tensor  # [N] float32
    terminated: torch.Tensor  # [N] bool
    truncated: torch.Tensor  # [N] bool: always False
    infos: dict[str, torch.Tensor]


@njit
def write_reward(i, state, events, seats, weights, rewards):
    """The reward of seat i for the turn just played."""
    b = int(seats[i]) // SNAKES
    over = events.over[b]
    snake = int(seats[i]) % SNAKES
    rewards[i] = reward_of(state[b], events.ate[b], events.died[b], events.reward[b], over, snake, weights)


write_rewards = item_loop(write_reward)


class TeamBatch:
    """See the top of this file."""

    def __init__(
        self,
        opponent: Player,
        matches: int,
        agent: Agent = "snake",
        encoder: str = "features",
        reward: str | RewardWeights = "team",
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        if agent not in ("snake", "team"):
            raise UserError(f"agent is {agent!r}; allowed: snake, team")
        if isinstance(opponent, Submission):
            raise UserError(f"{opponent.name}: a submission plays whole matches; it cannot be the opponent of team_env")
        self.opponent, self.matches, self.encoder = opponent, matches, encoder_named(encoder)
        self.by_team = agent == "team"
        self.shape: tuple[int, ...] = (matches, TEAM) if self.by_team else (matches * TEAM,)  # of the actions
        self.num_envs = self.shape[0]
        self._weights = torch.tensor([float(weight) for weight in weights_of(reward)])
        self._make_arena(seed, device)

    @property
    def device(self) -> torch.device:
        """Where the matches are played and the tensors are."""
        return self.arena.device

    def _make_arena(self, seed: int, device: str | torch.device) -> None:
        self.arena = arena = BatchArena(self.matches, device, seed)
        first = torch.arange(self.matches, dtype=torch.int32) * SNAKES
        first[self.matches // 2 :] += TEAM  # the second half of the matches as blue
        snakes = torch.arange(TEAM, dtype=torch.int32)
        self.seats = (first[:, None] + snakes).flatten().to(arena.device)
        other = first - first % SNAKES + (TEAM - first % SNAKES)
        self.foe_seats = (other[:, None] + snakes).flatten().to(arena.device)
        self._places = self.seats.long()
        self._board_actions = torch.from_numpy(BOARD_ACTIONS).to(arena.device)
        self._actions = torch.zeros(self.matches, SNAKES, dtype=torch.int8, device=arena.device)
        self._rewards = torch.zeros(len(self.seats), device=arena.device)
        weights = self._weights.to(arena.device)
        turn = (arena.state, arena.events, self.seats, weights, self._rewards)
        self._write_rewards = write_rewards.bind(len(self.seats), arena.device, *turn)
        self._obs: torch.Tensor | None = None

    def reset(self, seed: int | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Start all matches: those of a seed from its first one, or without a seed the next ones."""
        if seed is not None:
            self._make_arena(seed, self.device)
        self.start()
        return self.observe(), {"action_mask": self.action_mask()}

    def step(self, actions: Any) -> TeamTurn:
        """Play one turn of all matches; those that end start anew.

        actions [N] or [N, 3]: whole numbers as a tensor, a numpy array or any array with DLPack (JAX).
        """
        rewards, ended = self.play_turn(actions)
        infos: dict[str, torch.Tensor] = {}
        if ended.any():  # on a GPU the only place of a turn where the CPU waits
            self.arena.check()
            infos |= self._final_infos(ended)
            self.start(ended)
        obs = self.observe()
        infos["action_mask"] = self.action_mask()
        terminated = self.of_envs(ended)
        return TeamTurn(obs, rewards, terminated, torch.zeros_like(terminated), infos)

    def start(self, mask: torch.Tensor | None = None) -> None:
        """Start all matches, or those where mask [B] bool is True."""
        self.arena.start(mask)
        if mask is None:
            self.opponent.begin(self.arena, self.foe_seats)

    def play_turn(self, actions: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Play one turn, and start nothing: rewards [N] float32, and the matches that have ended [B] bool."""
        if self._obs is None:
            raise ArenaError("no match has been started; call reset() first")
        self.opponent.act(self.arena, self.foe_seats, self._actions)
        self._actions.view(-1)[self._places] = self._to_board(self._as_tensor(actions).flatten()).to(torch.int8)
        ended = self.arena.play_turn(self._actions).over.clone()
        self._write_rewards()
        return self._rewards.view(-1, TEAM).sum(1) if self.by_team else self._rewards.clone(), ended

    def observe(self) -> torch.Tensor:
        """What the snakes see now, in a new tensor: [N, W] or [N, 3, W]."""
        self._obs = self.arena.observe(self.encoder.name, self.seats)
        return self._obs.view(*self.shape, self.encoder.width)

    def action_mask(self) -> torch.Tensor:
        """[..., 4] bool of the last observation: False for the reversal, which the game would replace."""
        if self._obs is None:
            raise ArenaError("no match has been started; call reset() first")
        at = self.encoder.direction_at
        facing = self._obs[:, at : at + ACTIONS].bool()
        return ~facing[:, REVERSED].view(*self.shape, ACTIONS)

    def scores(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Length gained so far by the own and by the other team: [N] int64 each."""
        lengths = self.arena.state[:, LENGTH : LENGTH + SNAKES].long()
        scores = lengths.view(self.matches, 2, TEAM).sum(2) - TEAM * START_LENGTH
        scores[self.matches // 2 :] = scores[self.matches // 2 :].flip(1)  # the own team first
        return self.of_envs(scores[:, 0]), self.of_envs(scores[:, 1])

    def of_envs(self, of_matches: torch.Tensor) -> torch.Tensor:
        """Values of matches [B] as values of environments [N]."""
        return of_matches if self.by_team else of_matches.repeat_interleave(TEAM)

    def close(self) -> None:
        """Free what the opponent holds."""
        self.opponent.close()

    def _as_tensor(self, actions: Any) -> torch.Tensor:
        """The actions where the matches are: not copied if they are there already."""
        if not isinstance(actions, (torch.Tensor, np.ndarray)) and hasattr(actions, "__dlpack__"):
            actions = torch.from_dlpack(actions)
        if not isinstance(actions, torch.Tensor):
            array = np.ascontiguousarray(actions)
            if array.dtype.kind not in "iu":
                raise self._wrong_actions(array.dtype, array.shape)
            actions = torch.from_numpy(array if array.flags.writeable else array.copy())
        if actions.shape != self.shape or actions.is_floating_point() or actions.dtype == torch.bool:
            raise self._wrong_actions(str(actions.dtype).removeprefix("torch."), actions.shape)
        if self.device.type == "cpu":  # on a GPU looking at them would stop the device; the arena refuses them there
            low, high = (int(end) for end in actions.aminmax())
            if low < 0 or high >= ACTIONS:
                raise ArenaError(f"actions run from {low} to {high}; allowed: 0 up, 1 down, 2 left, 3 right")
        return actions.to(self.device)

    def _wrong_actions(self, dtype: Any, shape: Any) -> ArenaError:
        return ArenaError(f"actions are {dtype} {list(shape)}; need whole numbers {list(self.shape)}")

    def _to_board(self, actions: torch.Tensor) -> torch.Tensor:
        """Actions [3 B] of the view as actions of the board; a wrong one stays wrong."""
        if self.encoder.orientation_at is None:
            return actions
        local = actions.long()
        board = self._board_actions[self.encoder.orientations(self._obs).long(), local.clamp(0, ACTIONS - 1)]
        return torch.where(local == local.clamp(0, ACTIONS - 1), board, -1)

    def _final_infos(self, ended: torch.Tensor) -> dict[str, torch.Tensor]:
        """What is known of the matches that have just ended."""
        own, foe = self.scores()
        found = {"final_obs": self.observe(), "score": own, "foe_score": foe}
        return found | {f"_{name}": self.of_envs(ended) for name in found}
