"""The small loops of training that run once per match, team or batch row: drawing moves, rewards, sampling the buffer.

Each stands here once for one item, and as a loop over all of them for the CPU; turn_kernels.py calls the same functions
on a GPU. Every draw is a pure function of (match, turn, snake) or (rank, update, row), so what is collected does not
depend on the device, the batch or the number of ranks, and there is no generator whose state could be lost.

Where an encoder holds the board in a frame (arena/frames.py), networks answer in that frame: moves are turned back when
they are drawn, and into the frame again when they are kept.

Team b, below the number of matches, is the one that learns in match b; those above are the other sides of matches in
which both learn.
"""

import math

from arena.encoders.orientation import back, forth
from arena.jit import njit
from arena.rng import SLOT_ACTION, SLOT_BATCH, SLOT_EXPLORE, SLOT_OPPONENT, draw, draw_below
from arena.rules import DIRECTION, LENGTH, OVER, SNAKES, TEAM, TURN

MOVES = 4
ONE = 4294967296.0  # draws are below this

# Columns of `weights`, as RewardConfig makes them.
OWN, MATES, FOES, EAT, DIE, LEAD, WIN, ZERO_SUM = range(8)
NOBODY = -1  # no move is barred; no opponent is fixed


@njit
def opposite(direction):
    return direction ^ 1


@njit
def barred_move(direction, masked):
    """The move that the game would replace by a random one, if such moves are masked."""
    return opposite(direction) if masked else NOBODY


@njit
def softmax_sums(logits, barred):
    """The highest logit but the barred one, and the sum of e to all these logits less it."""
    highest = -math.inf
    for move in range(MOVES):
        if move != barred:
            highest = max(highest, logits[move])
    total = 0.0
    for move in range(MOVES):
        if move != barred:
            total += math.exp(logits[move] - highest)
    return highest, total


@njit
def drawn_move(logits, barred, epsilon, key, turn, snake):
    """A move by the softmax of the logits, or with probability epsilon any; never the barred one."""
    if draw(key, turn, SLOT_EXPLORE + snake) < epsilon * ONE:
        if barred == NOBODY:
            return draw_below(key, turn, SLOT_ACTION + snake, MOVES)
        move = draw_below(key, turn, SLOT_ACTION + snake, MOVES - 1)
        return move + 1 if move >= barred else move
    highest, total = softmax_sums(logits, barred)
    left = draw(key, turn, SLOT_ACTION + snake) / ONE * total
    chosen = 0 if barred == NOBODY else opposite(barred)  # legal, and taken if rounding leaves a remainder
    for move in range(MOVES):
        if move != barred and left >= 0:
            left -= math.exp(logits[move] - highest)
            if left < 0:
                chosen = move
    return chosen


@njit
def draw_moves(i, state, keys, seats, frames, logits, epsilon, masked, moves):
    """Write the move of seat i."""
    b = int(seats[i]) // SNAKES
    snake = int(seats[i]) % SNAKES
    frame = int(frames[i])
    barred = barred_move(forth(frame, int(state[b, DIRECTION + snake])), masked)
    move = drawn_move(logits[i], barred, epsilon[0], int(keys[b]), int(state[b, TURN]), snake)
    moves[b, snake] = back(frame, move)


@njit
def meet(b, state, keys, edges, fixed, which):
    """Choose the opponent of a match that is about to play its first turn: `edges` are the mix's, added up to 1.

    A match with a `fixed` opponent meets that one.
    """
    if state[b, TURN] == 0 and state[b, OVER] == 0:
        if fixed[b] != NOBODY:
            which[b] = fixed[b]
            return
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
    """The reward of one snake for the turn just played; zero-sum, less the mean reward of its foes."""
    reward = own_reward(state_b, ate_b, died_b, gain_b, over, snake, weights)
    if weights[ZERO_SUM] != 0:
        foes = TEAM - (snake - snake % TEAM)
        for k in range(TEAM):
            reward -= own_reward(state_b, ate_b, died_b, gain_b, over, foes + k, weights) / TEAM
    return reward


@njit
def own_reward(state_b, ate_b, died_b, gain_b, over, snake, weights):
    """What a snake is rewarded for, added up by the weights."""
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
    g, state, played, ate, died, gain, over, slot, side, frames, which, weights, counts, moves, rewards, ended, totals,
    tally,
):  # fmt: skip
    """Write the turn of team g into the buffer's next row, and the account of its match if that ended.

    totals[b, 0] are the match's rewards so far, totals[b, 1] those of all finished matches of this slot, by snake;
    tally[b, opponent] counts its wins, draws and losses.
    """
    at = int(counts[0]) % rewards.shape[0]
    b = int(slot[g])
    lead = 0
    for k in range(TEAM):
        snake = int(side[g]) * TEAM + k
        reward = reward_of(state[b], ate[b], died[b], gain[b], over[b], snake, weights)
        moves[at, g, k] = forth(int(frames[TEAM * g + k]), int(played[b, snake]))
        rewards[at, g, k] = reward
        lead += int(state[b, LENGTH + snake]) - int(state[b, LENGTH + (snake + TEAM) % SNAKES])
    ended[at, g] = over[b]
    if g != b:
        return  # the other side of a match that has its account already
    for k in range(TEAM):
        totals[b, 0, k] += rewards[at, b, k]
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
    turn = (written - held + draw_below(key, update, SLOT_BATCH + 2 * i, held - steps)) % turns
    slot = draw_below(key, update, SLOT_BATCH + 2 * i + 1, slots)
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
def draw_all_moves(state, keys, seats, frames, logits, epsilon, masked, moves):
    for i in range(seats.shape[0]):
        draw_moves(i, state, keys, seats, frames, logits, epsilon, masked, moves)


@njit
def meet_all(state, keys, edges, fixed, which):
    for b in range(state.shape[0]):
        meet(b, state, keys, edges, fixed, which)


@njit
def finish_all(
    state, played, ate, died, gain, over, slot, side, frames, which, weights, counts, moves, rewards, ended, totals,
    tally,
):  # fmt: skip
    for g in range(slot.shape[0]):
        finish_turn(
            g, state, played, ate, died, gain, over, slot, side, frames, which, weights, counts, moves, rewards, ended,
            totals, tally,
        )  # fmt: skip


@njit
def sample_all(key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares):
    for i in range(here.shape[0]):
        sample_turn(i, key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares)
