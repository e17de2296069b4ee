"""Plans the actions of a team by rollouts in the exact arena.

B = matches, C = candidates, R = rollouts, H = turns. For every match the candidates are: all three snakes play their
policy's best action; and each snake in turn plays another legal action while its mates keep theirs (C = 1 + 3 * 2).
Each candidate is played R times: on the first turn foes draw their actions from the policy, then all six snakes do, for
H - 1 turns. A rollout is worth

    sum over turns of discount^t * (growth of the own team - FOES * growth of the foes) + discount^H * value of the leaf

and a snake takes the action with the highest mean over rollouts, plus PRIOR * its log-probability. Growth is the change
of length; the leaf's value is the policy's value head.

The rollouts of a match use the same random numbers for all candidates (common random numbers), so that only the
candidates differ. They are not those of the match: a planner does not know which beans will appear.
"""

from typing import NamedTuple

import torch
from torch import nn

from arena import BatchArena
from arena.backends.loops import item_loop
from arena.encoders import Encoder
from arena.jit import njit
from arena.rng import match_key
from arena.rules import SNAKES, TEAM, TURN, TURNS
from marl.compute.cuda_graphs import Captured
from marl.compute.precision import Precision
from marl.networks.policy import mask_reversal, to_board_logits
from marl.networks.spec import ACTIONS
from marl.rollout.turn_kernels import Matches, Seats, draw_actions

CANDIDATES = 1 + TEAM * 2
DISCOUNT = 0.97  # of a turn: that of the champion's value head
FOES = 0.6  # weight of the foes' growth
PRIOR = 0.1  # weight of the log-probability of an action
LEAF = 1 / 1.6  # value heads of three snakes with rewards of 0.3 for mates add up to 1.6 times the team's growth
PLAN_SEED = 0x706C616E  # keeps the rollouts' random numbers apart from those of all matches
MOST_MATCHES = {"cpu": 4096, "cuda": 131072}  # simulated at once


class Budget(NamedTuple):
    """How much a planner looks ahead."""

    rollouts: int = 4
    turns: int = 4


@njit
def rollout_key(i, seed, candidates, rollouts, state, numbers, keys):
    """The key of simulated match i = (match * C + candidate) * R + rollout: the same for all candidates."""
    b = i // (candidates * rollouts)
    rollout = i % rollouts
    keys[i] = match_key(seed, (int(numbers[b]) * TURNS + int(state[b, TURN])) * rollouts + rollout)


rollout_keys = item_loop(rollout_key)


class Planner:
    """Plans for one team in every match of an arena, always for the same number of matches."""

    def __init__(
        self, actor: nn.Module, encoder: Encoder, arena: BatchArena, seats: torch.Tensor, budget: Budget
    ) -> None:
        device = arena.device
        self.budget, self._arena, self._actor, self._encoder = budget, arena, actor, encoder
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self._precision = Precision("bf16" if bf16 else "fp32", device)
        copies = CANDIDATES * budget.rollouts
        matches = len(seats) // TEAM
        self._chunk = max(1, min(matches, MOST_MATCHES[device.type] // copies))
        self._side = (seats.view(-1, TEAM)[:, 0].long() % SNAKES // TEAM).to(device)  # [B]: 0 red, 1 blue
        simulated = self._chunk * copies
        self._sim = BatchArena(simulated, device)
        self._obs = torch.zeros(simulated * SNAKES, encoder.width, dtype=arena.observe(encoder.name, seats[:1]).dtype)
        self._obs = self._obs.to(device)
        self._outputs = torch.zeros(simulated * SNAKES, actor.spec.outputs, device=device)
        self._board_actions = torch.zeros(simulated, SNAKES, dtype=torch.int8, device=device)
        all_seats = torch.arange(simulated * SNAKES, dtype=torch.int32, device=device)
        orientations = encoder.orientations(self._obs)
        drawn = Seats(all_seats, orientations, self._outputs)
        matches_of = Matches(self._sim.state, self._sim.keys)
        self._draw = draw_actions.bind(
            len(all_seats), device, matches_of, drawn, torch.zeros(1, device=device), True, self._board_actions
        )
        self._idx = torch.zeros(self._chunk, dtype=torch.int64, device=device)  # matches of the chunk
        self._numbers = torch.zeros(self._chunk, dtype=torch.int64, device=device)
        self._roots = torch.zeros(self._chunk, arena.state.shape[1], dtype=torch.uint8, device=device)
        seed = (PLAN_SEED << 31) ^ (arena.seed & 0x7FFFFFFF)
        self._keys = rollout_keys.bind(
            simulated, device, seed, CANDIDATES, budget.rollouts, self._roots, self._numbers, self._sim.keys
        )
        self._values = torch.zeros(self._chunk, TEAM, ACTIONS, device=device)
        self._simulate = Captured(self._simulate_chunk, device, enabled=device.type == "cuda")

    @torch.no_grad()
    def plan(self) -> torch.Tensor:
        """Planned values [B, 3, 4] of the own snakes' actions on the board; -inf for a reversal."""
        found = torch.empty(len(self._side), TEAM, ACTIONS, device=self._arena.device)
        for first in range(0, len(self._side), self._chunk):
            last = min(first + self._chunk, len(self._side))
            # A short last chunk is filled up with matches of the one before.
            self._idx.copy_(torch.arange(last - self._chunk, last, device=self._idx.device).clamp(min=0))
            self._roots.copy_(self._arena.state[self._idx])
            self._numbers.copy_(self._arena.numbers[self._idx])
            self._simulate()
            found[last - self._chunk if last >= self._chunk else 0 : last] = self._values[-min(self._chunk, last) :]
        return found

    def _simulate_chunk(self) -> None:
        """Values of one chunk; every tensor is reused, so that a CUDA graph can hold it."""
        sim, copies = self._sim, CANDIDATES * self.budget.rollouts
        sim.state.copy_(self._roots.repeat_interleave(copies, 0))
        self._keys()
        self._forward()
        # All copies of a match are still equal: its first copy is the root.
        root = self._outputs.view(self._chunk, copies, SNAKES, -1)[:, 0]
        root_obs = self._obs.view(self._chunk, copies, SNAKES, -1)[:, 0]
        log_probs = self._board_log_probs(root.reshape(self._chunk * SNAKES, -1), root_obs.flatten(0, 1))
        own = self._team(log_probs.view(self._chunk, SNAKES, ACTIONS))  # [b, 3, 4]
        ranked = own.sort(dim=-1, descending=True, stable=True).indices[..., :3]  # legal actions, best first
        candidates = self._candidates(ranked)  # [b, C, 3]
        self._draw()
        self._set_team(candidates)
        worth = self._play_out()  # [b, C]
        values = torch.full_like(own, float("-inf"))
        values.scatter_(2, ranked[..., :1], worth[:, :1, None].expand(-1, TEAM, 1))
        values.scatter_(2, ranked[..., 1:], worth[:, 1:].view(-1, TEAM, 2))
        self._values.copy_(values + PRIOR * own)

    def _play_out(self) -> torch.Tensor:
        """Mean worth of each candidate [b, C] over its rollouts; the first actions are set."""
        sim, worth, discount = self._sim, 0.0, 1.0
        for turn in range(self.budget.turns):
            if turn:
                self._forward()
                self._draw()
            events = sim.play_turn(self._board_actions)
            growth = events.reward.float().view(self._chunk, -1, 2, TEAM).sum(-1)  # [b, C * R, 2]
            worth = worth + discount * self._for_team(growth)
            discount *= DISCOUNT
        if self._outputs.shape[-1] > ACTIONS:
            self._forward()
            values = self._outputs[:, ACTIONS].view(self._chunk, -1, SNAKES)
            leaf = self._team(values.transpose(1, 2)).sum(1)
            worth = worth + discount * LEAF * leaf * ~sim.events.over.view(self._chunk, -1)
        return worth.view(self._chunk, CANDIDATES, -1).mean(-1)

    def _forward(self) -> None:
        """Observe all six snakes of all simulated matches and run the policy."""
        self._sim.observe(self._encoder.name, out=self._obs)
        self._outputs.copy_(self._precision.act(self._actor, self._obs, None, None)[0])

    def _board_log_probs(self, outputs: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        logits = mask_reversal(outputs[:, :ACTIONS], obs, self._encoder)
        return to_board_logits(logits, obs, self._encoder).log_softmax(-1)

    def _candidates(self, ranked: torch.Tensor) -> torch.Tensor:
        """Actions [b, C, 3]: the best of all; then for each snake its second and third, mates unchanged."""
        best = ranked[..., 0]
        candidates = best[:, None].expand(-1, CANDIDATES, -1).clone()
        for snake in range(TEAM):
            for other in (1, 2):
                candidates[:, 2 * snake + other, snake] = ranked[:, snake, other]
        return candidates

    def _set_team(self, candidates: torch.Tensor) -> None:
        actions = self._board_actions.view(self._chunk, -1, 2, TEAM)
        own = candidates.repeat_interleave(self.budget.rollouts, 1).to(torch.int8)
        mine = self._side[self._idx][:, None, None, None] == torch.arange(2, device=own.device)[:, None]
        actions.copy_(torch.where(mine, own[:, :, None], actions))

    def _team(self, of_snakes: torch.Tensor) -> torch.Tensor:
        """The own team's part [b, 3, ...] of [b, 6, ...]."""
        teams = of_snakes.unflatten(1, (2, TEAM))
        return teams[torch.arange(self._chunk, device=teams.device), self._side[self._idx]]

    def _for_team(self, growth: torch.Tensor) -> torch.Tensor:
        """Own growth minus FOES times the foes', [b, N] from [b, N, 2]."""
        red, blue = growth.unbind(-1)
        is_red = (self._side[self._idx] == 0)[:, None]
        return torch.where(is_red, red - FOES * blue, blue - FOES * red)
