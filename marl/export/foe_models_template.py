"""How the foes may play, for the planning submission: the models of marl/planning/foe_models.py in plain Python.

Appended after batched_tactical_template.py, from the first ruled comment on.
"""

import numpy as np

from marl.export.simulation_template import NEIGHBOURS
from marl.export.submission_template import COLUMNS, ROWS, TEAM, apart
from marl.export.tactical_template import NEIGHBOUR_CELLS, Surroundings, contest, set_of

# --- models of the foes, weighted by the moves that they have made ----------------------------------------------------

POLICY, TERRITORY, LEVEL4, RANDOM = range(4)
PRIOR_WEIGHTS = np.array([0.55, 0.15, 0.15, 0.15])
SURE, UNIFORM, FORGETTING, LEAST = 0.9, 0.05, 0.05, 0.03  # see marl/planning/foe_models.py
MATE_COST, FOE_COST, NO_MOVES = 8, 4, 1000  # of beans; see opponents/scripted.py


class FoeModels:
    """The weights [3, 4] of the models of a team's three foes."""

    def __init__(self, team):
        self.foes = range(TEAM - team * TEAM, 2 * TEAM - team * TEAM)
        self.turn = None
        self.log_weights = np.log(np.repeat(PRIOR_WEIGHTS[None], TEAM, 0))

    def see(self, match):
        """Weigh the models by the moves made since the last call; start anew in a match that has begun again."""
        heads = [match.bodies[foe][0] for foe in self.foes]
        if self.turn is not None and match.turn == self.turn + 1:
            for place, before in enumerate(self.heads):
                made = NEIGHBOURS[before] == heads[place]
                if made.any():  # otherwise the snake has died
                    likelihood = (1 - UNIFORM) * self.predictions[place][:, made].sum(1) + UNIFORM / 3
                    kept = (1 - FORGETTING) * self.log_weights[place] + FORGETTING * np.log(PRIOR_WEIGHTS)
                    self.log_weights[place] = kept + np.log(likelihood)
        elif self.turn is not None and match.turn < self.turn:
            self.__init__(self.foes[0] == 0)
        self.heads, self.turn = heads, match.turn

    def predict(self, match, policy):
        """Probabilities [3, 4] of the foes' moves; `policy` [3, 4] are those of the policy."""
        self.predictions = np.zeros((TEAM, len(PRIOR_WEIGHTS), 4))
        for place, foe in enumerate(self.foes):
            found = self.predictions[place]
            direction = match.directions[foe]
            found[POLICY] = policy[place]
            found[TERRITORY:] = (1 - SURE) / 3
            found[TERRITORY:, direction ^ 1] = 0
            found[TERRITORY, territory(match, foe)] += SURE
            found[LEVEL4, level4(match, foe)] += SURE
            free = [move for move, _ in free_moves(match, foe)] or [direction]
            found[RANDOM, free] += SURE / len(free)
        shares = np.exp(self.log_weights - self.log_weights.max(1, keepdims=True))
        weights = LEAST + (1 - len(PRIOR_WEIGHTS) * LEAST) * shares / shares.sum(1, keepdims=True)
        return (weights[..., None] * self.predictions).sum(1)


def surroundings_of(match):
    """What the searches of all snakes share on this turn."""
    if not hasattr(match, "surroundings"):
        match.surroundings = Surroundings(match)
    return match.surroundings


def free_moves(match, snake):
    """Moves and cells that are free on the next turn, straight on first."""
    direction, head = match.directions[snake], match.bodies[snake][0]
    moves = (direction, 2, 3) if direction < 2 else (direction, 0, 1)
    waits = surroundings_of(match).waits
    return [(move, NEIGHBOUR_CELLS[head][move]) for move in moves if waits[NEIGHBOUR_CELLS[head][move]] <= 1]


def moves_between(cell, other):
    """The distance of two cells around the torus."""
    rows, columns = apart(cell, other)
    return abs(rows) + abs(columns)


def teams_of(match, snake):
    """The heads of its two mates, and those of its three foes."""
    heads = [body[0] for body in match.bodies]
    first = snake - snake % TEAM
    mates = [heads[other] for other in range(first, first + TEAM) if other != snake]
    return mates, heads[TEAM - first : 2 * TEAM - first]


def heads_beside(heads, cell):
    """How many of these heads may enter a cell."""
    return sum(cell in NEIGHBOUR_CELLS[head] for head in heads)


def best_move(match, snake, score):
    """The free move with the highest score(move, cell), the first of equals; straight on if there is none."""
    options = free_moves(match, snake)
    return max(options, key=lambda option: score(*option))[0] if options else match.directions[snake]


def tail_may_stay(match, snake, cell):
    """Whether another snake that may eat on this turn is on this cell."""
    around = surroundings_of(match)
    owner = around.owners[cell]
    return owner is not None and owner != snake and around.may_eat[owner]


def territory(match, snake):
    """The move of `territory` (opponents/scripted.py)."""
    around = surroundings_of(match)
    length = len(match.bodies[snake])
    enough = 3 * length // 2 + 4
    mates, foes = teams_of(match, snake)

    def score(move, cell):
        own, lost, worth = contest(around, 1 << cell, set_of(mates), set_of(foes))
        short = max(0, enough - own)
        danger = 100 * heads_beside(foes, cell) + 150 * heads_beside(mates, cell)
        danger += 300 * tail_may_stay(match, snake, cell)
        wins = (move == match.directions[snake]) + 5 * (own - lost) + 3 * worth
        return wins - 150 * short * short // enough - (length + 2) * danger

    return best_move(match, snake, score)


def level4(match, snake):
    """The move of `level4` (opponents/scripted.py)."""
    head, direction = match.bodies[snake][0], match.directions[snake]
    mates, foes = teams_of(match, snake)
    waits = surroundings_of(match).waits
    goal, lowest = None, NO_MOVES
    for bean in match.beans:
        own = moves_between(head, bean)
        cost = own + MATE_COST * any(moves_between(mate, bean) < own for mate in mates)
        cost += FOE_COST * any(moves_between(foe, bean) < own for foe in foes)
        if cost < lowest:
            goal, lowest = bean, cost
    nearer = [] if goal is None else moves_towards(head, goal)
    only_reversal = nearer == [direction ^ 1]
    care = 8 + 2 * len(match.bodies[snake])

    def score(move, cell):
        ways_on = sum(waits[NEIGHBOUR_CELLS[cell][beyond]] <= 2 for beyond in range(4) if beyond != move ^ 1)
        points = 9 * (move in nearer) + 2 * ((move == direction) != only_reversal)
        points -= 2 * (care * heads_beside(foes, cell) + 80 * heads_beside(mates, cell))
        return points - 2 * (
            200 * (ways_on == 0) + care * (ways_on == 1) + 2 * care * tail_may_stay(match, snake, cell)
        )

    return best_move(match, snake, score)


def moves_towards(cell, goal):
    """The moves that lead nearer to a goal; both ways if they are equally long."""
    rows, columns = goal // COLUMNS - cell // COLUMNS, goal % COLUMNS - cell % COLUMNS
    up, down, left, right = -rows % ROWS, rows % ROWS, -columns % COLUMNS, columns % COLUMNS
    nearer = (0 < up <= down, 0 < down <= up, 0 < left <= right, 0 < right <= left)
    return [move for move in range(4) if nearer[move]]
