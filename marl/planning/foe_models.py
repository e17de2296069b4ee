"""How the foes may play: a few models, weighted by the likelihood of the moves that each foe has made.

    policy               as the planned policy itself
    territory, level4    as these scripted opponents, nine moves of ten
    random               to any free cell

After every turn a model's weight is multiplied by the probability that it gave to the move seen. Old moves fade, and
every model keeps a share, so that a wrong one costs little and a change of play is noticed.
"""

import torch

from arena import BatchArena
from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rules import ACTIONS, CELLS, HEAD, SNAKES, TEAM, TURN, neighbour, turns_until_free
from opponents.scripted import level4, territory
from opponents.tactics import candidate, direction_of, head_of

POLICY, TERRITORY, LEVEL4, RANDOM = range(4)
PRIOR_WEIGHTS = (0.55, 0.15, 0.15, 0.15)
MODELS = len(PRIOR_WEIGHTS)
SURE = 0.9  # the probability that a model other than the policy gives to its moves; the rest is uniform
UNIFORM = 0.05  # share of uniform moves in every likelihood: one odd move does not rule out a model
FORGETTING = 0.05  # of what was seen, with every turn after it
LEAST = 0.03  # weight of every model
_NEIGHBOURS = torch.tensor([[neighbour(cell, action) for action in range(ACTIONS)] for cell in range(CELLS)])


@njit
def predict(i, states, idx, side, predictions):
    """Write the probabilities [b, 3, MODELS, 4] of the scripted models' moves of foe i % 3 in match i // 3."""
    b = i // TEAM
    place = i % TEAM
    foe = (1 - int(side[int(idx[b])])) * TEAM + place
    match = states[b]
    head, direction = head_of(match, foe), direction_of(match, foe)
    free = 0
    for number in range(3):
        _, cell = candidate(head, direction, number)
        free += int(turns_until_free(match, cell) <= 1)
    for action in range(ACTIONS):
        other = 0.0 if action == direction ^ 1 else (1 - SURE) / 3
        predictions[b, place, TERRITORY, action] = other
        predictions[b, place, LEVEL4, action] = other
        predictions[b, place, RANDOM, action] = other
    predictions[b, place, TERRITORY, int(territory(match, 0, foe))] += SURE
    predictions[b, place, LEVEL4, int(level4(match, 0, foe))] += SURE
    for number in range(3):
        move, cell = candidate(head, direction, number)
        if turns_until_free(match, cell) <= 1:
            predictions[b, place, RANDOM, move] += SURE / free
    if free == 0:
        predictions[b, place, RANDOM, direction] += SURE


predict_moves = item_loop(predict)


class FoeModels:
    """The weights of the models of the three foes in every match of an arena."""

    def __init__(self, arena: BatchArena, side: torch.Tensor) -> None:
        matches, device = len(side), arena.device
        self._side = side
        self._neighbours = _NEIGHBOURS.to(device)
        self._prior = torch.tensor(PRIOR_WEIGHTS, dtype=torch.float64, device=device).log()
        self._log_weights = self._prior.repeat(matches, TEAM, 1)  # [B, 3, MODELS]
        self._heads = torch.zeros(matches, TEAM, dtype=torch.int64, device=device)
        self._turns = torch.full((matches,), -2, dtype=torch.int64, device=device)
        self.predictions = torch.ones(matches, TEAM, MODELS, ACTIONS, dtype=torch.float64, device=device)

    def see(self, states: torch.Tensor) -> None:
        """Weigh the models by the moves made since the last call; start anew in a match that has begun again."""
        turns = states[:, TURN].long()
        foes = (1 - self._side)[:, None] * TEAM + torch.arange(TEAM, device=turns.device)
        heads = states[:, HEAD : HEAD + SNAKES].long().gather(1, foes)
        made = self._neighbours[self._heads] == heads[..., None]  # [B, 3, 4]; none for a snake that died
        likelihood = (self.predictions * made[:, :, None]).sum(-1)
        seen = made.any(-1) & (turns == self._turns + 1)[:, None]
        kept = (1 - FORGETTING) * self._log_weights + FORGETTING * self._prior
        found = kept + ((1 - UNIFORM) * likelihood + UNIFORM / 3).log()
        self._log_weights = torch.where(seen[..., None], found, self._log_weights)
        anew = turns < self._turns
        self._log_weights = torch.where(anew[:, None, None], self._prior, self._log_weights)
        self._heads, self._turns = heads, turns

    def weights(self) -> torch.Tensor:
        """[B, 3, MODELS], which add up to 1 for each foe."""
        return LEAST + (1 - MODELS * LEAST) * self._log_weights.softmax(-1)
