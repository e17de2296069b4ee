"""PPO's compiled loops: log-probabilities of the actions played, advantages, shuffling, the gradient of the loss.

Functions of one item, for arena.backends.loops.item_loop. The loss whose gradient `loss_gradient` computes is written
in torch in ppo_loss.py, advantages in returns.py; tests hold them equal. `--no-fused` trains with those instead.

T = turns of a rollout, G = teams, 3 = snakes of a team.
"""

import math
from typing import NamedTuple

import torch

from arena.backends.loops import item_loop
from arena.encoders.orientation import local_action
from arena.jit import njit
from arena.rng import draw
from arena.rules import ACTIONS, DIRECTION, SNAKES, TEAM
from marl.rollout.turn_kernels import NONE, masked_action, max_and_sum_exp

# Of the shuffle: rounds of the Feistel network; a round's draws take slots from round << ROUND_BITS on.
ROUNDS, ROUND_BITS = 8, 24
# Columns of `stats`.
POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIPPED = range(5)
STATS = 5


class PolicyRows(NamedTuple):
    """What the policy computed when it played; see RolloutBuffer."""

    counts: torch.Tensor  # [2]
    masked: torch.Tensor  # [T, G, 3] int8: masked action, NONE for none
    log_probs: torch.Tensor  # [T, G, 3] of the actions played
    values: torch.Tensor  # [T + 1, G, 3]


class Targets(NamedTuple):
    """What a minibatch is trained on: tensors [T, G, 3] of the rollout buffer (values: [T + 1, G, 3])."""

    actions: torch.Tensor
    masked: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class Coefs(NamedTuple):
    """What PPO's loss depends on beside the data. Tensors change during a run; numbers are fixed."""

    adv_stats: torch.Tensor  # [2]: mean of the advantages, 1 / standard deviation
    regularisers: torch.Tensor  # [2]: coefficients of the entropy and of uniform_kl
    clip: float
    value_clip: float
    value_weight: float


class Minibatch(NamedTuple):
    """M rows (turns of a team) of a minibatch and what is computed for them."""

    idx: torch.Tensor  # [M] int64: t * G + g
    outputs: torch.Tensor  # [M, 3, 5]: the network's logits and value
    gradients: torch.Tensor  # [M, 3, 5]: of the loss by the outputs
    stats: torch.Tensor  # [M * 3, STATS]


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


@njit
def estimate_advantage(i, rewards, terminated, values, gamma, gae_lambda, advantages, returns):
    """Generalised advantage estimates of one snake, from the last turn back; `values` has one turn more."""
    g = i // TEAM
    k = i % TEAM
    gae = 0.0
    for back in range(rewards.shape[0]):
        t = rewards.shape[0] - 1 - back
        nonterminal = 0.0 if terminated[t, g] else 1.0
        delta = rewards[t, g, k] + gamma * nonterminal * values[t + 1, g, k] - values[t, g, k]
        gae = delta + gamma * gae_lambda * nonterminal * gae
        advantages[t, g, k] = gae
        returns[t, g, k] = gae + values[t, g, k]


@njit
def permuted(i, items, key, number):
    """The place of item i in permutation `number` of all items, computed alone: nothing has to be sorted.

    A Feistel network permutes the next power of four; places beyond the items are walked over.
    """
    half = 1
    while 1 << (2 * half) < items:
        half += 1
    mask = (1 << half) - 1
    place = i
    while True:
        left = place >> half
        right = place & mask
        for turn in range(ROUNDS):
            mixed = int(draw(key, number, (turn << ROUND_BITS) + right)) & mask
            left, right = right, left ^ mixed
        place = (left << half) | right
        if place < items:
            return place


@njit
def shuffle_item(i, key, counts, order):
    """Write place i of the next permutation."""
    order[i] = permuted(i, order.shape[0], key, int(counts[1]))


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

    advantage = (targets.advantages[t, g, k] - coefs.adv_stats[0]) * coefs.adv_stats[1]
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


record_steps = item_loop(record_step)
estimate_advantages = item_loop(estimate_advantage)
shuffle_items = item_loop(shuffle_item)
loss_gradients = item_loop(loss_gradient)
