"""The gradient of PPO's loss (learners/ppo_loss.py) by the network's outputs, as a compiled loop over snakes.

T = turns of a rollout, G = teams, 3 = snakes of a team.
"""

import math
from typing import NamedTuple

import torch

from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rules import ACTIONS, TEAM
from marl.rollout.turn_kernels import NONE, max_and_sum_exp

# Columns of `stats`, in the order of ppo_loss.
POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIPPED = range(5)
STATS = 5


class Targets(NamedTuple):
    """What a minibatch is trained on: tensors [T, G, 3] of the rollout buffer (values: [T + 1, G, 3])."""

    actions: torch.Tensor
    masked: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class Minibatch(NamedTuple):
    """M rows (turns of a team) of a minibatch and what is computed for them."""

    idx: torch.Tensor  # [M] int64: t * G + g
    outputs: torch.Tensor  # [M, 3, 5]: the network's logits and value
    gradients: torch.Tensor  # [M, 3, 5]: of the loss by the outputs
    stats: torch.Tensor  # [M * 3, STATS]


@njit
def loss_gradient(i, batch, targets, coefs):
    """The gradient of ppo_loss (ppo_loss.py) by the four logits and the value of one snake, and its statistics."""
    row = i // TEAM
    k = i % TEAM
    teams = targets.actions.shape[1]
    t = int(batch.idx[row]) // teams
    g = int(batch.idx[row]) % teams
    action = int(targets.actions[t, g, k])
    masked = int(targets.masked[t, g, k])
    logits = batch.outputs[row, k]
    scale = 1.0 / batch.stats.shape[0]

    highest, total = max_and_sum_exp(logits, masked)
    log_sum_exp = highest + math.log(total)
    entropy = 0.0
    for a in range(ACTIONS):
        if a != masked:
            log_prob = logits[a] - log_sum_exp
            entropy -= math.exp(log_prob) * log_prob

    advantage = targets.advantages[t, g, k]
    log_ratio = logits[action] - log_sum_exp - targets.log_probs[t, g, k]
    ratio = math.exp(log_ratio)
    clipped = min(max(ratio, 1.0 - coefs.clip), 1.0 + coefs.clip)
    uniform_prob = 1.0 / ACTIONS if masked == NONE else 1.0 / (ACTIONS - 1)
    policy_grad = 0.0 if clipped * advantage < ratio * advantage else ratio * advantage  # 0 where the ratio is clipped
    for a in range(ACTIONS):
        if a == masked:
            batch.gradients[row, k, a] = 0.0
        else:
            log_prob = logits[a] - log_sum_exp
            prob = math.exp(log_prob)
            grad_log_prob = (1.0 if a == action else 0.0) - prob
            entropy_grad = coefs.regularisers[0] * prob * (log_prob + entropy)
            uniform_grad = coefs.regularisers[1] * (prob - uniform_prob)
            batch.gradients[row, k, a] = scale * (entropy_grad + uniform_grad - policy_grad * grad_log_prob)

    value = logits[ACTIONS]
    old_value = targets.values[t, g, k]
    value_error = value - targets.returns[t, g, k]
    if coefs.value_clip > 0 and abs(value - old_value) > coefs.value_clip:
        clipped_value = old_value + math.copysign(coefs.value_clip, value - old_value)
        clipped_error = clipped_value - targets.returns[t, g, k]
        if clipped_error * clipped_error > value_error * value_error:
            value_error = clipped_error
            scale = 0.0  # the clipped value does not depend on the network
    batch.gradients[row, k, ACTIONS] = scale * coefs.value_weight * value_error

    batch.stats[i, POLICY_LOSS] = -min(ratio * advantage, clipped * advantage)
    batch.stats[i, VALUE_LOSS] = value_error * value_error / 2
    batch.stats[i, ENTROPY] = entropy
    batch.stats[i, KL] = ratio - 1.0 - log_ratio
    batch.stats[i, CLIPPED] = 1.0 if clipped != ratio else 0.0


loss_gradients = item_loop(loss_gradient)
