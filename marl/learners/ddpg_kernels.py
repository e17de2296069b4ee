"""Compiled gradients of DDPG's losses for dense networks: on a CPU (ddpg_passes.py), and on a GPU (ddpg_gpu.py).

The losses are written in torch in ddpg.py. N = snakes in a batch. Those for a CPU calculate in float32 in the order of
autograd: results are equal to the bit to autograd's where torch adds four numbers one after the other (ARM).
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rules import ACTIONS, TEAM
from marl.learners.replay_buffer import BatchRows
from marl.networks.policy import MASKED_LOGIT
from marl.rollout.turn_kernels import NONE, max_and_sum_exp

MASKED = np.float32(MASKED_LOGIT)
ZERO = np.float32(0.0)
# Rows of `stats`, in the order of Ddpg.LOGGED.
CRITIC_LOSS, ACTOR_LOSS, ENTROPY, VALUE = range(4)
STATS = 4
ACTOR, CRITIC = range(2)  # in tensors of both networks


class GpuBatch(NamedTuple):
    """A batch on a GPU, and what the networks make of it."""

    rows: BatchRows
    obs: torch.Tensor  # [turns * teams, 3, bytes]: all rows of the buffer, plain or packed
    outputs: torch.Tensor  # [2, N, 4]: logits of the actor, Q-values of the critic
    next_outputs: torch.Tensor  # [2, N, 4]: those of the targets, n turns later
    gradients: torch.Tensor  # [2, N, 4]: of the losses by the outputs
    stats: torch.Tensor  # [STATS, N]


@njit
def mask_logits(logits, obs, direction_at, masked):
    """The logits [N, 4] with the reversal masked; obs [N, W]. direction_at: of the encoder, NONE for no mask."""
    for i in range(logits.shape[0]):
        for action in range(ACTIONS):
            is_reversal = direction_at != NONE and obs[i, direction_at + (action ^ 1)] != 0
            masked[i, action] = MASKED if is_reversal else logits[i, action]


@njit
def td_gradient(q_values, actions, target_q_values, next_probs, returns, discounts, gradient):
    """The mean squared TD error; gradient [N, 4]: of it by the Q-values."""
    snakes = q_values.shape[0]
    scale = np.float32(2.0 / snakes)
    loss = 0.0
    for i in range(snakes):
        value, next_value = ZERO, ZERO
        for action in range(ACTIONS):
            value += q_values[i, action] * actions[i, action]
            next_value += target_q_values[i, action] * next_probs[i, action]
        error = value - (returns[i] + discounts[i // TEAM] * next_value)
        for action in range(ACTIONS):
            gradient[i, action] = scale * error * actions[i, action]
        loss += float(error) * float(error)
    return loss / snakes


@njit
def actor_gradient(log_probs, probs, q_values, entropy_coef, uniform_coef, gradient):
    """Loss, entropy and value of the actor's probabilities; gradient [N, 4]: of the loss by the log-probabilities."""
    snakes = probs.shape[0]
    legal = 0
    for i in range(snakes):
        for action in range(ACTIONS):
            legal += log_probs[i, action] > MASKED / 2
    by_value, by_entropy = np.float32(-1.0) / np.float32(snakes), entropy_coef / np.float32(snakes)
    by_legal = -uniform_coef / np.float32(legal)
    value, entropy, uniform = 0.0, 0.0, 0.0
    for i in range(snakes):
        for action in range(ACTIONS):
            log_prob, prob, q_value = log_probs[i, action], probs[i, action], q_values[i, action]
            by_log_prob = by_entropy * prob
            if log_prob > MASKED / 2:
                by_log_prob += by_legal
                uniform += float(log_prob)
            by_prob = by_entropy * log_prob + by_value * q_value
            gradient[i, action] = by_log_prob + by_prob * prob
            value += float(q_value * prob)
            entropy -= float(prob * log_prob)
    value, entropy = value / snakes, entropy / snakes
    return -value - entropy_coef * entropy - uniform_coef * uniform / legal, entropy, value


@njit
def reversal_in(row, direction_at):
    """The local action against the direction that a row of an observation holds; direction_at: NONE for no mask."""
    reversal = NONE
    if direction_at != NONE:
        for action in range(ACTIONS):
            if row[direction_at + action] != 0:
                reversal = action ^ 1
    return reversal


@njit
def expected_next_value(logits, q_values, masked):
    """The value of the softmax of the logits without the masked one."""
    highest, total = max_and_sum_exp(logits, masked)
    value = 0.0
    for action in range(ACTIONS):
        if action != masked:
            value += math.exp(logits[action] - highest) / total * q_values[action]
    return value


@njit
def ddpg_gradient(i, batch, direction_at, entropy_coef, uniform_coef):
    """The gradients of both losses by the logits and the Q-values of one snake, and its statistics."""
    row = i // TEAM
    k = i % TEAM
    drawn = batch.rows
    q_values = batch.outputs[CRITIC, i]
    scale = 1.0 / batch.stats.shape[1]

    next_masked = reversal_in(batch.obs[int(drawn.next_idx[row]), k], direction_at)
    next_value = expected_next_value(batch.next_outputs[ACTOR, i], batch.next_outputs[CRITIC, i], next_masked)
    error = -(drawn.returns[row, k] + drawn.discounts[row] * next_value)
    for action in range(ACTIONS):
        error += q_values[action] * drawn.actions[row, k, action]
    for action in range(ACTIONS):
        batch.gradients[CRITIC, i, action] = 2.0 * scale * error * drawn.actions[row, k, action]

    masked = reversal_in(batch.obs[int(drawn.idx[row]), k], direction_at)
    logits = batch.outputs[ACTOR, i]
    highest, total = max_and_sum_exp(logits, masked)
    log_sum_exp = highest + math.log(total)
    uniform_prob = 1.0 / ACTIONS if masked == NONE else 1.0 / (ACTIONS - 1)
    value, entropy, uniform = 0.0, 0.0, 0.0
    for action in range(ACTIONS):
        if action != masked:
            log_prob = logits[action] - log_sum_exp
            prob = math.exp(log_prob)
            value += prob * q_values[action]
            entropy -= prob * log_prob
            uniform += uniform_prob * log_prob
    for action in range(ACTIONS):
        if action == masked:
            batch.gradients[ACTOR, i, action] = 0.0
        else:
            log_prob = logits[action] - log_sum_exp
            prob = math.exp(log_prob)
            value_grad = prob * (q_values[action] - value)
            entropy_grad = entropy_coef * prob * (log_prob + entropy)
            uniform_grad = uniform_coef * (prob - uniform_prob)
            batch.gradients[ACTOR, i, action] = scale * (entropy_grad + uniform_grad - value_grad)

    batch.stats[CRITIC_LOSS, i] = error * error
    batch.stats[ACTOR_LOSS, i] = -value - entropy_coef * entropy - uniform_coef * uniform
    batch.stats[ENTROPY, i] = entropy
    batch.stats[VALUE, i] = value


ddpg_gradients = item_loop(ddpg_gradient)
