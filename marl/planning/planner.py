"""Plans the actions of a team by rollouts in the exact arena.

B = matches, C = candidates (first actions of the three own snakes), R = rollouts, H = turns. Two stages of C = 8
candidates for every match, each played R times:

    deviations    all snakes play their policy's best action; and each snake in turn plays its second or third legal
                  action while its mates keep theirs. This gives a value to every action of every snake.
    combinations  all combinations of the snakes' two best actions by these values, those that were deviations with
                  the worth that they had. The best one is played.

Each rollout begins with another reply: a joint action of the three foes, the likeliest R of all by the models of
marl/planning/foe_models.py. A foe that is far from all own heads plays its likeliest action. If there is a second turn,
all six snakes draw from the policy from there on. A rollout is worth

    sum over H turns of discount^t * (growth of the own team - foes * growth of the foes) + discount^H * leaf * values

where growth is the change of length and values are those of the own snakes' value heads at the end. The weights `foes`
and `leaf` follow from the reward of the policy's training (marl/planning/value_scale.py). A candidate is
worth the mean of its rollouts, weighted by the probabilities of the replies. To this its actions add

    PRIOR * log-probability - DEAD_END * length lost in a dead end (arena/dangers.py: a way of no return within 8 turns)

and the legal actions of a snake are ranked by this sum.

All candidates meet the same replies and random numbers, so that only the candidates differ. The numbers are not those
of the match: a planner does not know which beans will appear.

One drawn rollout of four turns led to more deaths than eight replies of one turn (docs/log/planning.md).
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
from marl.learners.precision import Precision
from marl.networks.actors import AnyActor
from marl.networks.policy import mask_reversal, to_board_logits
from marl.planning.foe_models import MODELS, POLICY, FoeModels, predict_moves
from marl.planning.value_scale import UNTOLD, ValueScale
from marl.rollout.turn_kernels import Matches, Seats, draw_actions

CANDIDATES = 2**TEAM  # of each stage
DEVIATIONS = 1 + 2 * TEAM  # candidates of the first stage; the last one repeats the first
DISCOUNT = 0.97  # of a turn: that of the champion's value head
PRIOR = 0.1  # weight of the log-probability of an action
DEAD_END = 1.0  # weight of the length that an action into a dead end will lose
NEAR = 5  # moves between an own head and that of a foe whose replies differ
LEAST_SHARE = 0.004  # probability of a reply that counts; the likeliest always does
MOST_REPLIES = 3**TEAM
PLAN_SEED = 0x706C616E  # keeps the rollouts' random numbers apart from those of all matches
MOST_MATCHES = {"cpu": 4096, "cuda": 131072}  # simulated at once


class Budget(NamedTuple):
    """How much a planner looks ahead."""

    rollouts: int = 8
    turns: int = 1
    milliseconds: float | None = None  # for a team's decision: rollouts are then as many as fit


@njit
def rollout_key(i, seed, candidates, rollouts, state, numbers, keys):
    """The key of simulated match i = (match * C + candidate) * R + rollout: the same for all candidates."""
    b = i // (candidates * rollouts)
    turn = int(numbers[b]) * TURNS + int(state[b, TURN])
    keys[i] = match_key(seed, turn * MOST_REPLIES + i % rollouts)


rollout_keys = item_loop(rollout_key)


@njit
def write_loss(i, states, idx, side, losses):
    """Write item i of losses [b, 3, 4] (match, own snake, action): the length lost in a dead end, which
    short rollouts miss; 0 if it is none."""
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
        self._scale = scale
        self.budget, self._arena, self._actor, self._encoder = budget, arena, actor, encoder
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self._precision = Precision("bf16" if bf16 else "fp32", device)
        copies = CANDIDATES * budget.rollouts
        matches = len(seats) // TEAM
        self._chunk = max(1, min(matches, MOST_MATCHES[device.type] // copies))
        self._side = (seats.view(-1, TEAM)[:, 0].long() % SNAKES // TEAM).to(device)  # [B]: 0 red, 1 blue
        simulated = self._chunk * copies
        self._sim = BatchArena(simulated, device)
        self.skips = device.type == "cpu"  # positions that do not count; a CUDA graph always has the same shapes
        self._obs = torch.zeros(simulated * SNAKES, encoder.width, dtype=arena.observe(encoder.name, seats[:1]).dtype)
        self._obs = self._obs.to(device)
        self._outputs = torch.zeros(simulated * SNAKES, actor.spec.outputs, device=device)
        self._board_actions = torch.zeros(simulated, SNAKES, dtype=torch.int8, device=device)
        all_seats = torch.arange(simulated * SNAKES, dtype=torch.int32, device=device)
        self._orientations = encoder.orientations(self._obs)
        drawn = Seats(all_seats, self._orientations, self._outputs)
        self._first_copies = all_seats.view(self._chunk, copies, SNAKES)[:, 0].flatten()  # seats of the roots
        matches_of = Matches(self._sim.state, self._sim.keys)
        self._draw = draw_actions.bind(
            len(all_seats), device, matches_of, drawn, torch.zeros(1, device=device), True, self._board_actions
        )
        self._idx = torch.zeros(self._chunk, dtype=torch.int64, device=device)  # matches of the chunk
        self._models, self._learns_foes = FoeModels(arena, self._side), learns_foes
        self._weights = torch.zeros(self._chunk, TEAM, MODELS, dtype=torch.float64, device=device)
        self._predictions = torch.zeros(self._chunk, TEAM, MODELS, ACTIONS, dtype=torch.float64, device=device)
        self._replies = torch.zeros(self._chunk, budget.rollouts, TEAM, dtype=torch.int8, device=device)
        self._shares = torch.zeros(self._chunk, budget.rollouts, device=device)  # their probabilities
        self._numbers = torch.zeros(self._chunk, dtype=torch.int64, device=device)
        self._roots = torch.zeros(self._chunk, arena.state.shape[1], dtype=torch.uint8, device=device)
        seed = (PLAN_SEED << 31) ^ (arena.seed & 0x7FFFFFFF)
        self._keys = rollout_keys.bind(
            simulated,
            device,
            seed,
            CANDIDATES,
            budget.rollouts,
            self._roots,
            self._numbers,
            self._sim.keys,
        )
        self._losses = torch.zeros(self._chunk, TEAM, ACTIONS, device=device)
        self._find_dead_ends = write_losses.bind(
            self._losses.numel(), device, self._roots, self._idx, self._side, self._losses
        )
        self._predict = predict_moves.bind(
            self._chunk * TEAM, device, self._roots, self._idx, self._side, self._predictions
        )
        self._values = torch.zeros(self._chunk, TEAM, ACTIONS, device=device)
        self._actions = torch.zeros(self._chunk, TEAM, dtype=torch.int8, device=device)
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
            self._roots.copy_(self._arena.state[part])
            self._numbers.copy_(self._arena.numbers[part])
            self._weights.copy_(weights[part])
            self._simulate()
            self._models.predictions[part] = self._predictions
            actions[part], values[part] = self._actions, self._values
        return actions, values

    def _simulate_chunk(self) -> None:
        """Plan one chunk; every tensor is reused, so that a CUDA graph can hold it."""
        self._return_to_roots()
        log_probs = self._root_log_probs()  # [b, 2, 3, 4]
        self._find_dead_ends()
        prior = PRIOR * self._of_side(log_probs, own=True) - DEAD_END * self._losses
        ranked = prior.sort(dim=-1, descending=True, stable=True).indices[..., :3]  # legal actions, best first
        self._find_replies(self._of_side(log_probs, own=False))
        deviations = self._deviations(ranked)
        worth = self._play_out(deviations, torch.arange(CANDIDATES, device=ranked.device) < DEVIATIONS)
        values = torch.full_like(prior, float("-inf"))
        values.scatter_(2, ranked[..., :1], worth[:, :1, None].expand(-1, TEAM, 1))
        values.scatter_(2, ranked[..., 1:], worth[:, 1:DEVIATIONS].view(-1, TEAM, 2))
        values += prior
        self._values.copy_(values)

        self._return_to_roots()
        best = values.topk(2, -1).indices  # [b, 3, 2]
        combinations = self._combinations(best)  # [b, C, 3]
        same = (combinations[:, :, None] == deviations[:, None]).all(-1)  # [b, C, C]
        known, is_new = worth.gather(1, same.int().argmax(-1)), ~same.any(-1)
        worth = torch.where(is_new, self._play_out(combinations, is_new), known)
        chosen = (worth + prior.gather(2, combinations.mT).sum(1)).argmax(1)
        self._actions.copy_(combinations[torch.arange(self._chunk, device=chosen.device), chosen])

    def _return_to_roots(self) -> None:
        """Bring all simulated matches to their roots."""
        self._sim.state.copy_(self._roots.repeat_interleave(CANDIDATES * self.budget.rollouts, 0))
        self._keys()

    def _root_log_probs(self) -> torch.Tensor:
        """The policy's log-probabilities [b, 2, 3, 4] of the actions on the board, of all snakes at the roots."""
        obs, outputs = self._outputs_for(self._first_copies)
        logits = mask_reversal(outputs[:, :ACTIONS], obs, self._encoder)
        board = to_board_logits(logits, obs, self._encoder).log_softmax(-1)
        return board.view(self._chunk, 2, TEAM, ACTIONS)

    def _play_out(self, candidates: torch.Tensor, needed: torch.Tensor) -> torch.Tensor:
        """Mean worth [b, C] of the first actions [b, C, 3] of the own team over their rollouts, where it is needed."""
        sim, discount = self._sim, 1.0
        worth = torch.zeros(self._chunk, CANDIDATES * self.budget.rollouts, device=sim.device)
        self._set_team(candidates)
        for turn in range(self.budget.turns):
            if turn:
                self._forward()
                self._draw()
            events = sim.play_turn(self._board_actions)
            growth = events.reward.float().view(self._chunk, -1, 2, TEAM).sum(-1)  # [b, C * R, 2]
            worth = worth + discount * self._for_team(growth)
            discount *= DISCOUNT
        if self._outputs.shape[-1] > ACTIONS:
            is_over = sim.events.over.view(self._chunk, CANDIDATES, -1)
            leaf = self._leaf_values(needed[..., None] & (self._shares > 0)[:, None] & ~is_over)
            worth = worth + discount * self._scale.leaf * leaf
        return (worth.view(self._chunk, CANDIDATES, -1) * self._shares[:, None]).sum(-1)

    def _find_replies(self, foe_log_probs: torch.Tensor) -> None:
        """The foes' likeliest joint actions, one for each rollout, and their shares; by the policy's [b, 3, 4]."""
        self._predict()
        self._predictions[:, :, POLICY] = foe_log_probs.exp()
        probs = (self._weights[..., None] * self._predictions).sum(2)  # [b, 3, 4]
        likeliest = probs.argmax(-1, keepdim=True) == torch.arange(ACTIONS, device=probs.device)
        probs = torch.where(self._near(), probs, likeliest)
        first, second, third = probs.unbind(1)
        joint = (first[:, :, None, None] * second[:, None, :, None] * third[:, None, None]).flatten(1)  # [b, 64]
        ranked = joint.sort(dim=1, descending=True, stable=True)
        shares, index = ranked.values[:, : self.budget.rollouts], ranked.indices[:, : self.budget.rollouts]
        shares[:, 1:] *= shares[:, 1:] >= LEAST_SHARE
        self._shares.copy_(shares / shares.sum(1, keepdim=True))
        self._replies.copy_(torch.stack([index // ACTIONS**2, index // ACTIONS % ACTIONS, index % ACTIONS], -1))

    def _near(self) -> torch.Tensor:
        """Whether [b, 3, 1] each foe's head is near an own one."""
        heads = self._roots[:, HEAD : HEAD + SNAKES].long().view(-1, 2, TEAM)
        own, foes = self._of_side(heads, own=True), self._of_side(heads, own=False)
        rows = (own // COLUMNS)[:, None] - (foes // COLUMNS)[..., None]
        columns = (own % COLUMNS)[:, None] - (foes % COLUMNS)[..., None]
        rows, columns = rows.abs(), columns.abs()
        moves = torch.minimum(rows, ROWS - rows) + torch.minimum(columns, COLUMNS - columns)
        return (moves <= NEAR).any(-1, keepdim=True)

    def _forward(self) -> None:
        """Observe all six snakes of all simulated matches and run the policy."""
        self._sim.observe(self._encoder.name, out=self._obs)
        self._outputs.copy_(self._precision.act(self._actor, self._obs, None, None)[0])

    def _outputs_for(self, seats: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations of some seats of the simulated matches, and the policy's outputs."""
        obs = self._sim.observe(self._encoder.name, seats)
        return obs, self._precision.act(self._actor, obs, None, None)[0].float()

    def _leaf_values(self, counts: torch.Tensor) -> torch.Tensor:
        """Summed values [b, C * R] of the own snakes in the positions that count [b, C, R], 0 elsewhere."""
        picked = counts.flatten() if self.skips else slice(None)
        leaf = torch.zeros(counts.numel(), device=counts.device)
        outputs = self._outputs_for(self._own_seats().view(-1, TEAM)[picked].flatten())[1]
        leaf[picked] = outputs[:, ACTIONS].view(-1, TEAM).sum(-1)
        return (leaf * counts.flatten()).view(self._chunk, -1)

    def _own_seats(self) -> torch.Tensor:
        """The seats of the own team in all simulated matches."""
        seats = torch.arange(self._sim.matches, device=self._sim.device).view(self._chunk, -1, 1) * SNAKES
        first = self._side[self._idx].view(-1, 1, 1) * TEAM
        return (seats + first + torch.arange(TEAM, device=seats.device)).flatten().int()

    def _deviations(self, ranked: torch.Tensor) -> torch.Tensor:
        """Actions [b, C, 3]: the best of all snakes; then each snake's second and third, mates unchanged."""
        candidates = ranked[:, None, :, 0].expand(-1, CANDIDATES, -1).clone()
        for snake in range(TEAM):
            for other in (1, 2):
                candidates[:, 2 * snake + other, snake] = ranked[:, snake, other]
        return candidates

    def _combinations(self, best: torch.Tensor) -> torch.Tensor:
        """Actions [b, C, 3]: all combinations of the snakes' two best actions [b, 3, 2]."""
        choices = [best[:, snake, :] for snake in range(TEAM)]
        picks = torch.cartesian_prod(*[torch.arange(2, device=best.device)] * TEAM)  # [C, 3]
        return torch.stack([choices[snake][:, picks[:, snake]] for snake in range(TEAM)], -1)

    def _set_team(self, candidates: torch.Tensor) -> None:
        actions = self._board_actions.view(self._chunk, -1, 2, TEAM)
        own = candidates.repeat_interleave(self.budget.rollouts, 1).to(torch.int8)[:, :, None]
        foes = self._replies.repeat(1, CANDIDATES, 1)[:, :, None]
        mine = self._side[self._idx][:, None, None, None] == torch.arange(2, device=own.device)[:, None]
        actions.copy_(torch.where(mine, own, foes))

    def _of_side(self, of_teams: torch.Tensor, own: bool) -> torch.Tensor:
        """The own team's or the foes' part [b, ...] of [b, 2, ...]."""
        side = self._side[self._idx]
        return of_teams[torch.arange(self._chunk, device=side.device), side if own else 1 - side]

    def _for_team(self, growth: torch.Tensor) -> torch.Tensor:
        """Own growth minus the weighed growth of the foes, [b, N] from [b, N, 2]."""
        red, blue = growth.unbind(-1)
        foes = self._scale.foes
        is_red = (self._side[self._idx] == 0)[:, None]
        return torch.where(is_red, red - foes * blue, blue - foes * red)
