"""The planner of the play page in Python, as its reference: rollouts in which all six snakes draw from the policy.

Two stages of eight candidates: deviations from the policy's best actions, then combinations of the two best actions of
each snake. marl/export/planner.js says more.
"""

from typing import NamedTuple

import torch

from arena import BatchArena
from arena.dangers import is_dead_end
from arena.rng import match_key
from arena.rules import ACTIONS, LENGTH, SNAKES, START_LENGTH, TEAM, TURN, TURNS
from marl.networks.policy import mask_reversal, to_board_logits
from marl.planning.judge import DISCOUNT, PRIOR
from marl.planning.planner import CANDIDATES, DEAD_END, PLAN_SEED
from marl.planning.value_scale import value_scale
from marl.rollout.turn_kernels import Matches, Seats, draw_actions
from marl.storage.policy_player import PolicyPlayer


class DrawnPlan(NamedTuple):
    actions: list[int]  # of the three own snakes
    values: torch.Tensor  # [3, 4]
    losses: torch.Tensor  # [3, 4]: length lost in a dead end


def drawn_plan(who: PolicyPlayer, arena: BatchArena, b: int, team: int, rollouts: int, turns: int) -> DrawnPlan:
    """The plan of a team in match b of an arena."""
    own, scale = slice(team * TEAM, team * TEAM + TEAM), value_scale(who.reward)
    root = _copies(arena, b, 1)
    obs, outputs = _observe(who, root)
    logits = mask_reversal(outputs[:, :ACTIONS], obs, who.encoder)
    log_probs = to_board_logits(logits, obs, who.encoder).log_softmax(-1)[own]
    state = arena.state[b].numpy()
    losses = torch.tensor(
        [
            [is_dead_end(state, snake, action) * (int(state[LENGTH + snake]) - START_LENGTH) for action in range(4)]
            for snake in range(own.start, own.stop)
        ]
    )
    prior = PRIOR * log_probs - DEAD_END * losses
    ranked = prior.sort(dim=-1, descending=True, stable=True).indices[:, :3]
    seed = (PLAN_SEED << 31) ^ (arena.seed & 0x7FFFFFFF)
    number = int(arena.numbers[b]) * TURNS + int(state[TURN])

    def play_out(candidates: torch.Tensor, stage: int) -> torch.Tensor:
        sim = _copies(arena, b, CANDIDATES * rollouts)
        keys = [match_key(seed, (number * 2 + stage) * rollouts + rollout) for rollout in range(rollouts)]
        sim.keys.copy_(torch.tensor(keys * CANDIDATES))
        worth, discount = torch.zeros(sim.matches), 1.0
        for turn in range(turns):
            actions = _draw(who, sim)
            if turn == 0:
                actions[:, own] = candidates.repeat_interleave(rollouts, 0).to(torch.int8)
            growth = sim.play_turn(actions).reward.float()
            mine = growth[:, own].sum(1)
            worth += discount * (mine - scale.foes * (growth.sum(1) - mine))
            discount *= DISCOUNT
        leaf = _observe(who, sim)[1][:, ACTIONS].view(-1, SNAKES)[:, own].sum(1)
        worth += discount * scale.leaf * leaf * ~sim.events.over
        return worth.view(CANDIDATES, rollouts).mean(1)

    candidates = ranked[None, :, 0].repeat(CANDIDATES, 1)
    for snake in range(TEAM):
        candidates[2 * snake + 1 : 2 * snake + 3, snake] = ranked[snake, 1:]
    worth = play_out(candidates, 0)
    values = torch.full((TEAM, ACTIONS), float("-inf"))
    for snake in range(TEAM):
        values[snake, ranked[snake]] = worth[[0, 2 * snake + 1, 2 * snake + 2]]
    values += prior
    picks = torch.cartesian_prod(*[torch.arange(2)] * TEAM)
    combinations = values.topk(2, -1).indices[torch.arange(TEAM), picks]
    total = play_out(combinations, 1) + prior[torch.arange(TEAM), combinations].sum(1)
    return DrawnPlan(combinations[total.argmax()].tolist(), values, losses)


def _copies(arena: BatchArena, b: int, count: int) -> BatchArena:
    sim = BatchArena(count)
    sim.state.copy_(arena.state[b].expand(count, -1))
    return sim


@torch.no_grad()
def _observe(who: PolicyPlayer, sim: BatchArena) -> tuple[torch.Tensor, torch.Tensor]:
    obs = sim.observe(who.encoder.name).flatten(0, 1)
    return obs, who.actor.step(obs, None, None)[0]


def _draw(who: PolicyPlayer, sim: BatchArena) -> torch.Tensor:
    obs, outputs = _observe(who, sim)
    actions = torch.zeros(sim.matches, SNAKES, dtype=torch.int8)
    seats = Seats(
        torch.arange(sim.matches * SNAKES, dtype=torch.int32), who.encoder.orientations(obs), outputs.contiguous()
    )
    matches = Matches(sim.state, sim.keys)
    draw_actions.bind(len(seats.seat), torch.device("cpu"), matches, seats, torch.zeros(1), True, actions)()
    return actions
