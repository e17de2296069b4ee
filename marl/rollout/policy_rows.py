"""What a policy with a value computed when it played: a buffer that keeps it has `policy_rows`.

T = turns of a rollout, G = teams, 3 = snakes of a team.
"""

import math
from typing import NamedTuple

import torch

from arena.backends.loops import item_loop
from arena.encoders.orientation import local_action
from arena.jit import njit
from arena.rules import ACTIONS, DIRECTION, SNAKES, TEAM
from marl.rollout.turn_kernels import masked_action, max_and_sum_exp


class PolicyRows(NamedTuple):
    """What the policy computed when it played."""

    counts: torch.Tensor  # [2]
    masked: torch.Tensor  # [T, G, 3] int8: masked action, NONE for none
    log_probs: torch.Tensor  # [T, G, 3] of the actions played
    values: torch.Tensor  # [T + 1, G, 3]


@njit
def log_softmax_at(logits, masked, action):
    """The log-probability of an action under the softmax of the logits without the masked one."""
    highest, total = max_and_sum_exp(logits, masked)
    return logits[action] - highest - math.log(total)


@njit
def record_step(i, state, seats, board_actions, masks_reversal, rows):
    """Store seat i's masked action, the log-probability of the action it is about to play, and the value."""
    row = int(rows.counts[0]) % rows.log_probs.shape[0]
    b = int(seats.seat[i]) // SNAKES
    snake = int(seats.seat[i]) % SNAKES
    g = i // TEAM
    k = i % TEAM
    orientation = int(seats.orientation[i])
    masked = masked_action(orientation, int(state[b, DIRECTION + snake]), masks_reversal)
    action = local_action(orientation, int(board_actions[b, snake]))
    rows.masked[row, g, k] = masked
    rows.log_probs[row, g, k] = log_softmax_at(seats.outputs[i], masked, action)
    rows.values[row, g, k] = seats.outputs[i, ACTIONS]


record_steps = item_loop(record_step)
