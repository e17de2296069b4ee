"""Gradients of DDPG's losses (learners/ddpg.py) by the outputs of its networks, as compiled loops.

N = snakes of a batch. In float32, in the order of autograd.
"""

import numpy as np

from arena.jit import njit
from arena.rules import ACTIONS, TEAM
from marl.networks.policy import MASKED_LOGIT
from marl.rollout.turn_kernels import NONE

MASKED = np.float32(MASKED_LOGIT)
ZERO = np.float32(0.0)


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
