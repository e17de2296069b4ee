"""What a rollout computes for each seat, match or team of a turn: actions, opponents, rewards, results.

Functions of one item, for arena.backends.loops.item_loop, which runs them on the CPU and on a GPU. Every draw is a pure
function of (match, turn, snake), so the collected data do not depend on the device, the batch size or the number of
ranks, and there is no generator whose state could be lost.

Networks see the board in an orientation (arena/encoders/orientation.py) and give local actions. They are turned into
actions on the board when they are drawn, and back into local ones when they are stored.

B = matches, N = seats (match * 6 + snake), G = teams that learn, T = turns in the buffer.
"""

import math
from typing import NamedTuple

import torch

from arena.backends.loops import item_loop
from arena.encoders.orientation import board_action, local_action
from arena.jit import njit
from arena.rng import DRAW_RANGE, SLOT_ACTION, SLOT_EXPLORE, SLOT_OPPONENT, draw, draw_below
from arena.rules import ACTIONS, DIRECTION, LENGTH, OVER, SNAKES, TEAM, TURN
from marl.rewards import reward_of, sign

NONE = -1  # no action is masked; no opponent is preset


class Matches(NamedTuple):
    """The arena's tensors."""

    state: torch.Tensor  # [B, MATCH_BYTES]
    keys: torch.Tensor  # [B]


class Seats(NamedTuple):
    """Seats that a network plays."""

    seat: torch.Tensor  # [N] int32
    orientation: torch.Tensor  # [N]
    outputs: torch.Tensor  # [N, 4 or 5]: logits of local actions, and maybe a value


class Teams(NamedTuple):
    """Teams that learn."""

    match: torch.Tensor  # [G] int32
    side: torch.Tensor  # [G] uint8: 0 red, 1 blue
    orientation: torch.Tensor  # [G * 3]
    is_second: torch.Tensor  # [G] bool: the other side of a match in which both sides learn


class TurnRows(NamedTuple):
    """The buffer's tensors of one turn of one team per row."""

    counts: torch.Tensor  # [2]: turns written, batches drawn
    actions: torch.Tensor  # [T, G, 3] int8: local
    rewards: torch.Tensor  # [T, G, 3]
    terminated: torch.Tensor  # [T, G] bool


class MatchSums(NamedTuple):
    """Sums over finished matches, per match slot."""

    returns: torch.Tensor  # [B, 2, 3]: rewards of the match so far, and of all finished matches, by snake
    tally: torch.Tensor  # [B, opponents, 3]: wins, draws, losses
    deaths: torch.Tensor  # [B, 2]: of all turns; the team that learns first, like the next one
    lengths: torch.Tensor  # [B, 2]: of whole teams at the end of finished matches


@njit
def masked_action(orientation, direction, masks_reversal):
    """The local action that the game would replace by a random one, if reversals are masked."""
    return local_action(orientation, direction) ^ 1 if masks_reversal else NONE


@njit
def max_and_sum_exp(logits, masked):
    """The highest logit but the masked one, and the sum of exp(logit - highest) over the same logits."""
    highest = -math.inf
    for action in range(ACTIONS):
        if action != masked:
            highest = max(highest, logits[action])
    total = 0.0
    for action in range(ACTIONS):
        if action != masked:
            total += math.exp(logits[action] - highest)
    return highest, total


@njit
def sample_action(logits, masked, epsilon, key, turn, snake):
    """An action drawn from the softmax of the logits, or with probability epsilon uniformly; never the masked one."""
    if draw(key, turn, SLOT_EXPLORE + snake) < epsilon * DRAW_RANGE:
        if masked == NONE:
            return draw_below(key, turn, SLOT_ACTION + snake, ACTIONS)
        action = draw_below(key, turn, SLOT_ACTION + snake, ACTIONS - 1)
        return action + 1 if action >= masked else action
    highest, total = max_and_sum_exp(logits, masked)
    left = draw(key, turn, SLOT_ACTION + snake) / DRAW_RANGE * total
    chosen = 0 if masked == NONE else masked ^ 1  # legal, and taken if rounding leaves a remainder
    for action in range(ACTIONS):
        if action != masked and left >= 0:
            left -= math.exp(logits[action] - highest)
            if left < 0:
                chosen = action
    return chosen


@njit
def draw_action(i, matches, seats, epsilon, masks_reversal, board_actions):
    """Draw the action of seat i and write it into board_actions [B, 6]."""
    b = int(seats.seat[i]) // SNAKES
    snake = int(seats.seat[i]) % SNAKES
    orientation = int(seats.orientation[i])
    masked = masked_action(orientation, int(matches.state[b, DIRECTION + snake]), masks_reversal)
    turn = int(matches.state[b, TURN])
    action = sample_action(seats.outputs[i], masked, epsilon[0], int(matches.keys[b]), turn, snake)
    board_actions[b, snake] = board_action(orientation, action)


@njit
def choose_likeliest(i, matches, seats, board_actions):
    """Write the likeliest legal action of seat i into board_actions [B, 6]."""
    b = int(seats.seat[i]) // SNAKES
    snake = int(seats.seat[i]) % SNAKES
    orientation = int(seats.orientation[i])
    masked = masked_action(orientation, int(matches.state[b, DIRECTION + snake]), True)
    highest, chosen = -math.inf, masked ^ 1
    for action in range(ACTIONS):
        if action != masked and seats.outputs[i, action] > highest:
            highest, chosen = seats.outputs[i, action], action
    board_actions[b, snake] = board_action(orientation, chosen)


@njit
def assign_opponent(b, matches, mix_cdf, preset_opponent, opponent_id):
    """Draw the opponent of match b if it is about to play its first turn; a preset opponent is met for sure.

    mix_cdf holds the cumulated shares of the opponents in the mix.
    """
    if matches.state[b, TURN] == 0 and matches.state[b, OVER] == 0:
        if preset_opponent[b] != NONE:
            opponent_id[b] = preset_opponent[b]
            return
        place = draw(int(matches.keys[b]), 0, SLOT_OPPONENT) / DRAW_RANGE * mix_cdf[mix_cdf.shape[0] - 1]
        chosen = 0
        while chosen < mix_cdf.shape[0] - 1 and place >= mix_cdf[chosen]:
            chosen += 1
        opponent_id[b] = chosen


@njit
def finish_turn(g, state, events, board_actions, opponent_id, teams, reward_weights, rows, results):
    """Write the turn that team g has just played into the buffer's next row, and its match's result if it ended."""
    row = int(rows.counts[0]) % rows.rewards.shape[0]
    b = int(teams.match[g])
    over = events.over[b]
    length, foe_length, deaths, foe_deaths = 0, 0, 0, 0
    for k in range(TEAM):
        snake = int(teams.side[g]) * TEAM + k
        foe = (snake + TEAM) % SNAKES
        reward = reward_of(state[b], events.ate[b], events.died[b], events.reward[b], over, snake, reward_weights)
        rows.actions[row, g, k] = local_action(int(teams.orientation[TEAM * g + k]), int(board_actions[b, snake]))
        rows.rewards[row, g, k] = reward
        length += int(state[b, LENGTH + snake])
        foe_length += int(state[b, LENGTH + foe])
        deaths += int(events.died[b, snake])
        foe_deaths += int(events.died[b, foe])
    rows.terminated[row, g] = over
    if teams.is_second[g]:
        return  # the first team of the match writes its result
    for k in range(TEAM):
        results.returns[b, 0, k] += rows.rewards[row, g, k]
    results.deaths[b, 0] += deaths
    results.deaths[b, 1] += foe_deaths
    if over:
        for k in range(TEAM):
            results.returns[b, 1, k] += results.returns[b, 0, k]
            results.returns[b, 0, k] = 0.0
        results.tally[b, int(opponent_id[b]), 1 - sign(length - foe_length)] += 1
        results.lengths[b, 0] += length
        results.lengths[b, 1] += foe_length


@njit
def write_words(counts, words, first, obs):
    """Copy observations of a turn into the buffer's next row, from column `first` on; words [T, n], obs [m] int64."""
    row = int(counts[0]) % words.shape[0]
    for i in range(obs.shape[0]):
        words[row, first + i] = obs[i]


@njit
def count_turn(counts):
    """The turn is written."""
    counts[0] += 1


draw_actions = item_loop(draw_action)
choose_likeliest_actions = item_loop(choose_likeliest)
assign_opponents = item_loop(assign_opponent)
finish_turns = item_loop(finish_turn)


class PolicyRows(NamedTuple):
    """What a policy with a value computed when it played, of buffers that keep it (`policy_rows`)."""

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
