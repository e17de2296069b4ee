"""The small loops of training that run once per match or per batch row: drawing moves, rewards, sampling the buffer.

Each stands here once for one item, and as a loop over all of them for the CPU; turn_kernels.py calls the same functions
on a GPU. Every draw is a pure function of (match, turn, snake) or (rank, update, row), so what is collected does not
depend on the device, the batch or the number of ranks, and there is no generator whose state could be lost.
"""

import math

from arena.jit import njit
from arena.rng import draw, draw_below
from arena.rules import DIRECTION, LENGTH, OVER, SNAKES, TEAM, TURN
from opponents.scheduler import SLOT_OPPONENT

MOVES = 4
# Slots of a match's draws, beside those of the rules and the opponents.
SLOT_EXPLORE = 208  # + snake: whether a move is random
SLOT_MOVE = 216  # + snake: which move
# Slots of a rank's draws for an update; row i of the batch takes 2 i and 2 i + 1.
SLOT_ROWS = 256
ONE = 4294967296.0  # draws are below this

# Columns of `weights`, as rewards.py makes them.
OWN, MATES, FOES, EAT, DIE, LEAD, WIN = range(7)


@njit
def opposite(direction):
    return direction ^ 1


@njit
def drawn_move(logits, direction, epsilon, key, turn, snake):
    """A move by the softmax of the logits, or with probability epsilon any; never the reversal of the direction."""
    barred = opposite(direction)
    if draw(key, turn, SLOT_EXPLORE + snake) < epsilon * ONE:
        move = draw_below(key, turn, SLOT_MOVE + snake, MOVES - 1)
        return move + 1 if move >= barred else move
    highest = -math.inf
    for move in range(MOVES):
        if move != barred:
            highest = max(highest, logits[move])
    total = 0.0
    for move in range(MOVES):
        if move != barred:
            total += math.exp(logits[move] - highest)
    left = draw(key, turn, SLOT_MOVE + snake) / ONE * total
    chosen = opposite(barred)  # the way it goes: legal, and taken if rounding leaves a remainder
    for move in range(MOVES):
        if move != barred and left >= 0:
            left -= math.exp(logits[move] - highest)
            if left < 0:
                chosen = move
    return chosen


@njit
def draw_moves(i, state, keys, seats, logits, epsilon, moves):
    """Write the move of seat i."""
    b = int(seats[i]) // SNAKES
    snake = int(seats[i]) % SNAKES
    direction = int(state[b, DIRECTION + snake])
    moves[b, snake] = drawn_move(logits[i], direction, epsilon[0], int(keys[b]), int(state[b, TURN]), snake)


@njit
def meet(b, state, keys, edges, which):
    """Choose the opponent of a match that is about to play its first turn: `edges` are the mix's, added up to 1."""
    if state[b, TURN] == 0 and state[b, OVER] == 0:
        place = draw(int(keys[b]), 0, SLOT_OPPONENT) / ONE * edges[edges.shape[0] - 1]
        chosen = 0
        while chosen < edges.shape[0] - 1 and place >= edges[chosen]:
            chosen += 1
        which[b] = chosen


@njit
def sign(number):
    return 1 if number > 0 else -1 if number < 0 else 0


@njit
def reward_of(state_b, ate_b, died_b, gain_b, over, snake, weights):
    """The reward of one snake for the turn just played."""
    team = snake - snake % TEAM
    foes = TEAM - team
    mates_gain = 0
    foes_gain = 0
    lead = 0
    for k in range(TEAM):
        foes_gain += int(gain_b[foes + k])
        if team + k != snake:
            mates_gain += int(gain_b[team + k])
        lead += int(state_b[LENGTH + team + k]) - int(state_b[LENGTH + foes + k])
    reward = weights[OWN] * int(gain_b[snake]) + weights[MATES] * mates_gain - weights[FOES] * foes_gain
    if ate_b[snake]:
        reward += weights[EAT]
    if died_b[snake]:
        reward -= weights[DIE]
    reward += weights[LEAD] * sign(lead)
    if over:
        reward += weights[WIN] * sign(lead)
    return reward


@njit
def finish_turn(
    b, state, played, ate, died, gain, over, side, which, weights, counts, moves, rewards, ended, totals, tally
):
    """Write the turn of one match into the buffer's next row, and the account of the match if it ended.

    totals[b, 0] are the match's rewards so far, totals[b, 1] those of all finished matches of this slot, by snake;
    tally[b, opponent] counts its wins, draws and losses.
    """
    at = int(counts[0]) % rewards.shape[0]
    lead = 0
    for k in range(TEAM):
        snake = int(side[b]) * TEAM + k
        reward = reward_of(state[b], ate[b], died[b], gain[b], over[b], snake, weights)
        moves[at, b, k] = played[b, snake]
        rewards[at, b, k] = reward
        totals[b, 0, k] += reward
        lead += int(state[b, LENGTH + snake]) - int(state[b, LENGTH + (snake + TEAM) % SNAKES])
    ended[at, b] = over[b]
    if over[b]:
        for k in range(TEAM):
            totals[b, 1, k] += totals[b, 0, k]
            totals[b, 0, k] = 0.0
        tally[b, int(which[b]), 1 - sign(lead)] += 1


@njit
def sample_turn(i, key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares):
    """Row i of a batch: a random turn of the buffer, its n-step returns and where the turn n later lies.

    counts holds the turns written so far and the batches drawn so far; shares gets the moves, one-hot. A match that
    ends within the n turns ends the return; what is read `there` then counts nothing.
    """
    turns = rewards.shape[0]
    slots = rewards.shape[1]
    written = int(counts[0])
    update = int(counts[1])
    held = min(written, turns)
    turn = (written - held + draw_below(key, update, SLOT_ROWS + 2 * i, held - steps)) % turns
    slot = draw_below(key, update, SLOT_ROWS + 2 * i + 1, slots)
    for k in range(TEAM):
        returns[i, k] = 0.0
        for move in range(MOVES):
            shares[i, k, move] = 0.0
        shares[i, k, int(moves[turn, slot, k])] = 1.0
    factor = 1.0
    at = turn
    for _ in range(steps):
        for k in range(TEAM):
            returns[i, k] += factor * rewards[at, slot, k]
        factor *= gamma
        if over[at, slot]:
            factor = 0.0
        at = at + 1 if at + 1 < turns else 0
    discounts[i] = factor
    here[i] = turn * slots + slot
    there[i] = at * slots + slot


@njit
def draw_all_moves(state, keys, seats, logits, epsilon, moves):
    for i in range(seats.shape[0]):
        draw_moves(i, state, keys, seats, logits, epsilon, moves)


@njit
def meet_all(state, keys, edges, which):
    for b in range(state.shape[0]):
        meet(b, state, keys, edges, which)


@njit
def finish_all(
    state, played, ate, died, gain, over, side, which, weights, counts, moves, rewards, ended, totals, tally
):
    for b in range(state.shape[0]):
        finish_turn(
            b, state, played, ate, died, gain, over, side, which, weights, counts, moves, rewards, ended, totals, tally
        )


@njit
def sample_all(key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares):
    for i in range(here.shape[0]):
        sample_turn(i, key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares)
