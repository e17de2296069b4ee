"""Plans the actions of a team by looking ahead in the exact arena.

B = matches, C = candidates (first actions of the three own snakes), R = replies of the foes. Two stages of C = 8
candidates for every match, each against R replies:

    deviations    all snakes play their policy's best action; and each snake in turn plays its second or third legal
                  action while its mates keep theirs. This gives a value to every action of every snake.
    combinations  all combinations of the snakes' two best actions by these values, those that were deviations with
                  the worth that they had. The best one is played, or the best ones are looked at again (below).

A reply is a joint action of the three foes; the R likeliest by the models of marl/planning/foe_models.py are weighed. A
foe that is far from all own heads plays its likeliest action. With one reply a candidate is worth

    growth of the own team - foes * growth of the foes + DISCOUNT * leaf * values

where growth is the change of length and values are those of the own snakes' value heads after the turn. The weights
`foes` and `leaf` follow from the reward of the policy's training (marl/planning/value_scale.py). A candidate is worth
the mean over the replies, weighted by their probabilities. To this its actions add

    PRIOR * log-probability - DEAD_END * length lost in a dead end (arena/dangers.py: a way of no return within 8 turns)

and the legal actions of a snake are ranked by this sum.

With a second turn the LOOKED_AGAIN best combinations are compared once more, against the REPLIES_AGAIN likeliest
replies: the position after a turn is then worth what the own team can make of it on the next one
(marl/planning/second_turn.py).

All candidates meet the same replies and random numbers, so that only the candidates differ. The numbers are not those
of the match: a planner does not know which beans will appear.

What was tried besides: docs/log/planning.md.
"""

from typing import NamedTuple

import torch

from arena import BatchArena
from arena.backends.cuda_graphs import Captured
from arena.backends.loops import item_loop
from arena.dangers import is_dead_end
from arena.encoders import Encoder
from arena.jit import njit
from arena.rng import match_key
from arena.rules import ACTIONS, COLUMNS, HEAD, LENGTH, ROWS, SNAKES, START_LENGTH, TEAM, TURN, TURNS
from marl.networks.actors import AnyActor
from marl.planning.foe_models import MODELS, POLICY, FoeModels, predict_moves
from marl.planning.judge import DISCOUNT, PRIOR, Judge
from marl.planning.second_turn import DEVIATIONS, SecondTurn, deviations, joined
from marl.planning.value_scale import UNTOLD, ValueScale

CANDIDATES = 2**TEAM  # of each stage; the last deviation repeats the first
DEAD_END = 1.0  # weight of the length that an action into a dead end will lose
NEAR = 5  # moves between an own head and that of a foe whose replies differ
LEAST_SHARE = 0.004  # probability of a reply that counts; the likeliest always does
MOST_REPLIES, MOST_TURNS = 3**TEAM, 2
LOOKED_AGAIN, REPLIES_AGAIN = 3, 2  # combinations and replies in front of a second turn, at most
PLAN_SEED = 0x706C616E  # keeps the random numbers of plans apart from those of all matches
MOST_MATCHES = {"cpu": 4096, "cuda": 131072}  # simulated at once


class Budget(NamedTuple):
    """How much a planner looks ahead."""

    replies: int = 8
    turns: int = 2  # of the own team
    milliseconds: float | None = None  # for a team's decision: replies are then as many as fit

    @property
    def looked_again(self) -> int:
        """Positions of a match in front of a second turn."""
        return LOOKED_AGAIN * min(self.replies, REPLIES_AGAIN) if self.turns == MOST_TURNS else 0


@njit
def simulation_key(i, seed, candidates, replies, state, numbers, keys):
    """The key of simulated match i = (match * C + candidate) * R + reply: the same for all candidates."""
    b = i // (candidates * replies)
    turn = int(numbers[b]) * TURNS + int(state[b, TURN])
    keys[i] = match_key(seed, turn * MOST_REPLIES + i % replies)


simulation_keys = item_loop(simulation_key)


@njit
def write_loss(i, states, idx, side, losses):
    """Write item i of losses [b, 3, 4] (match, own snake, action): the length lost in a dead end, which
    looking ahead a turn or two misses; 0 if it is none."""
    b = i // (TEAM * ACTIONS)
    place = i // ACTIONS % TEAM
    snake = int(side[int(idx[b])]) * TEAM + place
    dead = is_dead_end(states[b], snake, i % ACTIONS)
    losses[b, place, i % ACTIONS] = int(states[b, LENGTH + snake]) - START_LENGTH if dead else 0


write_losses = item_loop(write_loss)


class Planner:
    """Plans for one team in every match of an arena, always for the same number of matches."""

    def __init__(
        self,
        actor: AnyActor,
        encoder: Encoder,
        arena: BatchArena,
        seats: torch.Tensor,
        budget: Budget,
        learns_foes: bool = True,
        scale: ValueScale = UNTOLD,
    ) -> None:
        device = arena.device
        self.budget, self._arena = budget, arena
        self.judge = Judge(actor, encoder, scale, device)
        matches, replies = len(seats) // TEAM, budget.replies
        again = budget.looked_again
        most = max(CANDIDATES * replies, again * DEVIATIONS)  # simulated for each match
        b = self._chunk = max(1, min(matches, MOST_MATCHES[device.type] // most))
        self._side = (seats.view(-1, TEAM)[:, 0].long() % SNAKES // TEAM).to(device)  # [B]: 0 red, 1 blue
        self._roots, self._sim = BatchArena(b, device), BatchArena(b * CANDIDATES * replies, device)
        self._second = SecondTurn(self.judge, b * again, device) if again else None
        self._board_actions = torch.zeros(self._sim.matches, SNAKES, dtype=torch.int8, device=device)
        self._idx = torch.zeros(b, dtype=torch.int64, device=device)  # matches of the chunk
        self._models, self._learns_foes = FoeModels(arena, self._side), learns_foes
        self._weights = torch.zeros(b, TEAM, MODELS, dtype=torch.float64, device=device)
        self._predictions = torch.zeros(b, TEAM, MODELS, ACTIONS, dtype=torch.float64, device=device)
        self._replies = torch.zeros(b, replies, TEAM, dtype=torch.int8, device=device)
        self._shares = torch.zeros(b, replies, device=device)  # their probabilities
        self._numbers = torch.zeros(b, dtype=torch.int64, device=device)
        states = self._roots.state
        seed = (PLAN_SEED << 31) ^ (arena.seed & 0x7FFFFFFF)
        self._keys = simulation_keys.bind(
            self._sim.matches, device, seed, CANDIDATES, replies, states, self._numbers, self._sim.keys
        )
        self._losses = torch.zeros(b, TEAM, ACTIONS, device=device)
        self._find_dead_ends = write_losses.bind(
            self._losses.numel(), device, states, self._idx, self._side, self._losses
        )
        self._predict = predict_moves.bind(b * TEAM, device, states, self._idx, self._side, self._predictions)
        self._values = torch.zeros(b, TEAM, ACTIONS, device=device)
        self._actions = torch.zeros(b, TEAM, dtype=torch.int8, device=device)
        self._simulate = Captured(self._simulate_chunk, device, enabled=device.type == "cuda")

    @torch.no_grad()
    def plan(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Planned actions [B, 3] of the own snakes on the board, and planned values [B, 3, 4] of all their actions."""
        device = self._arena.device
        if self._learns_foes:
            self._models.see(self._arena.state)
        weights = self._models.weights()
        actions = torch.empty(len(self._side), TEAM, dtype=torch.int8, device=device)
        values = torch.empty(len(self._side), TEAM, ACTIONS, device=device)
        for first in range(0, len(self._side), self._chunk):
            begin = min(first, len(self._side) - self._chunk)  # a short last chunk plans some matches again
            part = slice(begin, begin + self._chunk)
            self._idx.copy_(torch.arange(begin, begin + self._chunk, device=device))
            self._roots.state.copy_(self._arena.state[part])
            self._numbers.copy_(self._arena.numbers[part])
            self._weights.copy_(weights[part])
            self._simulate()
            self._models.predictions[part] = self._predictions
            actions[part], values[part] = self._actions, self._values
        return actions, values

    def _simulate_chunk(self) -> None:
        """Plan one chunk; every tensor is reused, so that a CUDA graph can hold it."""
        self._keys()
        side = self._side[self._idx]
        rows = torch.arange(self._chunk, device=side.device)
        log_probs = self.judge.log_probs(self._roots, torch.ones_like(side, dtype=torch.bool))  # [b, 2, 3, 4]
        self._find_dead_ends()
        prior = PRIOR * log_probs[rows, side] - DEAD_END * self._losses
        ranked = prior.sort(dim=-1, descending=True, stable=True).indices[..., :3]  # legal actions, best first
        self._find_replies(log_probs[rows, 1 - side])
        deviating = deviations(ranked)  # [b, D, 3]
        padded = torch.cat((deviating, deviating[:, :1]), 1)  # [b, C, 3]
        worth = self._play(padded, torch.arange(CANDIDATES, device=side.device) < DEVIATIONS)
        values = torch.full_like(prior, float("-inf"))
        values.scatter_(2, ranked[..., :1], worth[:, :1, None].expand(-1, TEAM, 1))
        values.scatter_(2, ranked[..., 1:], worth[:, 1:DEVIATIONS].view(-1, TEAM, 2))
        values += prior
        self._values.copy_(values)

        combinations = self._combinations(values.topk(2, -1).indices)  # [b, C, 3]
        same = (combinations[:, :, None] == deviating[:, None]).all(-1)  # [b, C, D]
        known, is_new = worth.gather(1, same.int().argmax(-1)), ~same.any(-1)
        worth = torch.where(is_new, self._play(combinations, is_new), known)
        of_actions = prior.gather(2, combinations.mT).sum(1)  # [b, C]
        chosen = (worth + of_actions).argmax(1)
        if self._second:
            best = (worth + of_actions).topk(LOOKED_AGAIN).indices  # [b, K]
            again = self._look_again(self._second, best) + of_actions.gather(1, best)
            chosen = best[rows, again.argmax(1)]
        self._actions.copy_(combinations[rows, chosen])

    def _play(self, candidates: torch.Tensor, needed: torch.Tensor) -> torch.Tensor:
        """Mean worth [b, C] of the first actions [b, C, 3] of the own team over the replies, where it is needed."""
        sim, copies = self._sim, CANDIDATES * self.budget.replies
        sim.state.copy_(self._roots.state.repeat_interleave(copies, 0))
        side = self._sides(copies)
        own = candidates.repeat_interleave(self.budget.replies, 1).flatten(0, 1)
        foes = self._replies.repeat(1, CANDIDATES, 1).flatten(0, 1)
        self._board_actions.copy_(joined(own.to(torch.int8), foes, side))
        sim.play_turn(self._board_actions)
        counts = (needed[..., None] & (self._shares > 0)[:, None]).flatten() & ~sim.events.over
        worth = self.judge.growth(sim, side) + DISCOUNT * self.judge.values(sim, side, counts)
        return (worth.view(self._chunk, CANDIDATES, -1) * self._shares[:, None]).sum(-1)

    def _look_again(self, second: SecondTurn, best: torch.Tensor) -> torch.Tensor:
        """Mean worth [b, K] of some of the combinations [b, K] that were just played, with a second turn."""
        shares = self._shares[:, :REPLIES_AGAIN] / self._shares[:, :REPLIES_AGAIN].sum(1, keepdim=True)
        rows = torch.arange(self._chunk, device=best.device)[:, None]

        def of_best(simulated: torch.Tensor) -> torch.Tensor:
            """What the simulated matches of these combinations have, [b * K * R, ...]."""
            of_all = simulated.view(self._chunk, CANDIDATES, self.budget.replies, *simulated.shape[1:])
            return of_all[rows, best, :REPLIES_AGAIN].flatten(0, 2)

        second.positions.state.copy_(of_best(self._sim.state))
        second.positions.keys.copy_(of_best(self._sim.keys))
        counts = (shares > 0).repeat_interleave(LOOKED_AGAIN, 0).flatten() & ~of_best(self._sim.events.over)
        worth = DISCOUNT * second.worth(self._sides(LOOKED_AGAIN * shares.shape[1]), counts) * counts
        worth = worth + of_best(self.judge.growth(self._sim, self._sides(CANDIDATES * self.budget.replies)))
        return (worth.view(self._chunk, LOOKED_AGAIN, -1) * shares[:, None]).sum(-1)

    def _sides(self, copies: int) -> torch.Tensor:
        """The own side, 0 or 1, in as many copies of each match."""
        return self._side[self._idx].repeat_interleave(copies)

    def _find_replies(self, foe_log_probs: torch.Tensor) -> None:
        """The foes' likeliest joint actions, and their shares; by the policy's [b, 3, 4]."""
        self._predict()
        self._predictions[:, :, POLICY] = foe_log_probs.exp()
        probs = (self._weights[..., None] * self._predictions).sum(2)  # [b, 3, 4]
        likeliest = probs.argmax(-1, keepdim=True) == torch.arange(ACTIONS, device=probs.device)
        probs = torch.where(self._near(), probs, likeliest)
        first, second, third = probs.unbind(1)
        joint = (first[:, :, None, None] * second[:, None, :, None] * third[:, None, None]).flatten(1)  # [b, 64]
        ranked = joint.sort(dim=1, descending=True, stable=True)
        shares, index = ranked.values[:, : self.budget.replies], ranked.indices[:, : self.budget.replies]
        shares[:, 1:] *= shares[:, 1:] >= LEAST_SHARE
        self._shares.copy_(shares / shares.sum(1, keepdim=True))
        self._replies.copy_(torch.stack([index // ACTIONS**2, index // ACTIONS % ACTIONS, index % ACTIONS], -1))

    def _near(self) -> torch.Tensor:
        """Whether [b, 3, 1] each foe's head is near an own one."""
        heads = self._roots.state[:, HEAD : HEAD + SNAKES].long().view(-1, 2, TEAM)
        side = self._side[self._idx]
        rows = torch.arange(self._chunk, device=side.device)
        own, foes = heads[rows, side], heads[rows, 1 - side]
        rows = (own // COLUMNS)[:, None] - (foes // COLUMNS)[..., None]
        columns = (own % COLUMNS)[:, None] - (foes % COLUMNS)[..., None]
        rows, columns = rows.abs(), columns.abs()
        moves = torch.minimum(rows, ROWS - rows) + torch.minimum(columns, COLUMNS - columns)
        return (moves <= NEAR).any(-1, keepdim=True)

    def _combinations(self, best: torch.Tensor) -> torch.Tensor:
        """Actions [b, C, 3]: all combinations of the snakes' two best actions [b, 3, 2]."""
        choices = [best[:, snake, :] for snake in range(TEAM)]
        picks = torch.cartesian_prod(*[torch.arange(2, device=best.device)] * TEAM)  # [C, 3]
        return torch.stack([choices[snake][:, picks[:, snake]] for snake in range(TEAM)], -1)
