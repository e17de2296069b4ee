"""The length that an action into a dead end costs: what four turns of rollouts miss (arena/dangers.py)."""

from arena.backends.loops import item_loop
from arena.dangers import is_dead_end
from arena.jit import njit
from arena.rules import ACTIONS, LENGTH, START_LENGTH, TEAM


@njit
def write_loss(i, states, idx, side, losses):
    """Write item i of losses [b, 3, 4] (match, own snake, action): the length lost in a dead end; 0 if it is none."""
    b = i // (TEAM * ACTIONS)
    place = i // ACTIONS % TEAM
    snake = int(side[int(idx[b])]) * TEAM + place
    dead = is_dead_end(states[b], snake, i % ACTIONS)
    losses[b, place, i % ACTIONS] = int(states[b, LENGTH + snake]) - START_LENGTH if dead else 0


write_losses = item_loop(write_loss)
