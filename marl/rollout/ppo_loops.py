"""PPO's loops over seats and batch rows: what is noted of a move, advantages, the shuffled order, the loss's gradient.

Like those of turn_loops.py, each stands here once for one item and as a loop over all of them for the CPU, and runs on
a GPU by turn_kernels.py. T = turns between updates, G = teams, 3 = snakes of a team.
"""

import math

from arena.encoders.orientation import forth
from arena.jit import njit
from arena.rng import draw
from arena.rules import DIRECTION, SNAKES, TEAM
from marl.rollout.turn_loops import MOVES, NOBODY, barred_move, softmax_sums

# Of a shuffle; slots of a rank's draws for an epoch: round << ROUND_BITS, and what is mixed.
ROUNDS, ROUND_BITS = 8, 24
# Columns of `numbers`.
POLICY, VALUE, ENTROPY, KL, CLIPPED = range(5)


@njit
def log_softmax_at(logits, barred, move):
    """Logarithm of the chance that the softmax of the logits, the barred one left out, gives a move."""
    highest, total = softmax_sums(logits, barred)
    return logits[move] - highest - math.log(total)


@njit
def note(i, state, seats, frames, answers, played, counts, masked, barred, log_chances, values):
    """Keep of seat i's move, before it is played, what the update wants to know: how likely it was, and the value."""
    at = int(counts[0]) % log_chances.shape[0]
    b = int(seats[i]) // SNAKES
    snake = int(seats[i]) % SNAKES
    g = i // TEAM
    k = i % TEAM
    frame = int(frames[i])
    no = barred_move(forth(frame, int(state[b, DIRECTION + snake])), masked)
    barred[at, g, k] = no
    log_chances[at, g, k] = log_softmax_at(answers[i], no, forth(frame, int(played[b, snake])))
    values[at, g, k] = answers[i, MOVES]


@njit
def advantage(i, rewards, over, values, gamma, decay, advantages, returns):
    """Generalised advantage estimates of one snake, from the last turn back; `values` has one turn more."""
    g = i // TEAM
    k = i % TEAM
    later = 0.0
    for back in range(rewards.shape[0]):
        t = rewards.shape[0] - 1 - back
        goes_on = 0.0 if over[t, g] else 1.0
        surprise = rewards[t, g, k] + gamma * goes_on * values[t + 1, g, k] - values[t, g, k]
        later = surprise + gamma * decay * goes_on * later
        advantages[t, g, k] = later
        returns[t, g, k] = later + values[t, g, k]


@njit
def shuffled(i, items, key, number):
    """Where item i of so many stands in shuffle `number`: each place is taken once, and nothing has to be sorted.

    A Feistel network shuffles the next power of four; places beyond the items are walked over.
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
def gradient(
    i, here, answers, moves, barred, log_chances, values, advantages, returns, moments, spreads, clip, value_clip,
    value_weight, gradients, numbers,
):  # fmt: skip
    """The gradient of PPO's loss by the network's answer (four logits, a value) for one snake of a batch, and numbers.

    loss = - min(ratio A, clipped ratio A) + value_weight (value - return)^2 / 2
           - spreads[0] * entropy - spreads[1] * mean log chance of the legal moves
    """
    row = i // TEAM
    k = i % TEAM
    teams = moves.shape[1]
    t = int(here[row]) // teams
    g = int(here[row]) % teams
    move = int(moves[t, g, k])
    no = int(barred[t, g, k])
    answer = answers[row, k]
    scale = 1.0 / numbers.shape[0]

    highest, total = softmax_sums(answer, no)
    log_total = highest + math.log(total)
    spread = 0.0  # entropy
    for m in range(MOVES):
        if m != no:
            log_chance = answer[m] - log_total
            spread -= math.exp(log_chance) * log_chance

    gain = (advantages[t, g, k] - moments[0]) * moments[1]
    log_ratio = answer[move] - log_total - log_chances[t, g, k]
    ratio = math.exp(log_ratio)
    clipped = min(max(ratio, 1.0 - clip), 1.0 + clip)
    even_share = 1.0 / MOVES if no == NOBODY else 1.0 / (MOVES - 1)
    pull = 0.0 if clipped * gain < ratio * gain else ratio * gain  # a clipped move is left alone
    for m in range(MOVES):
        if m == no:
            gradients[row, k, m] = 0.0
        else:
            log_chance = answer[m] - log_total
            chance = math.exp(log_chance)
            up = (1.0 if m == move else 0.0) - chance
            held = spreads[0] * chance * (log_chance + spread) + spreads[1] * (chance - even_share)
            gradients[row, k, m] = scale * (held - pull * up)

    value = answer[MOVES]
    old = values[t, g, k]
    wrong = value - returns[t, g, k]
    if value_clip > 0 and abs(value - old) > value_clip:
        near = old + math.copysign(value_clip, value - old) - returns[t, g, k]
        if near * near > wrong * wrong:
            wrong = near
            scale = 0.0  # the value has moved as far as it may
    gradients[row, k, MOVES] = scale * value_weight * wrong

    numbers[i, POLICY] = -min(ratio * gain, clipped * gain)
    numbers[i, VALUE] = wrong * wrong / 2
    numbers[i, ENTROPY] = spread
    numbers[i, KL] = ratio - 1.0 - log_ratio
    numbers[i, CLIPPED] = 1.0 if clipped != ratio else 0.0


@njit
def note_all(state, seats, frames, answers, played, counts, masked, barred, log_chances, values):
    for i in range(seats.shape[0]):
        note(i, state, seats, frames, answers, played, counts, masked, barred, log_chances, values)


@njit
def advantages_all(rewards, over, values, gamma, decay, advantages, returns):
    for i in range(rewards.shape[1] * rewards.shape[2]):
        advantage(i, rewards, over, values, gamma, decay, advantages, returns)


@njit
def shuffle_all(key, counts, order):
    for i in range(order.shape[0]):
        order[i] = shuffled(i, order.shape[0], key, int(counts[1]))


@njit
def gradients_all(
    here, answers, moves, barred, log_chances, values, advantages, returns, moments, spreads, clip, value_clip,
    value_weight, gradients, numbers,
):  # fmt: skip
    for i in range(numbers.shape[0]):
        gradient(
            i, here, answers, moves, barred, log_chances, values, advantages, returns, moments, spreads, clip,
            value_clip, value_weight, gradients, numbers,
        )  # fmt: skip
