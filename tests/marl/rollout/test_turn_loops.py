"""The loops of training, one by one: moves drawn, opponents met, rewards and accounts, rows of a batch.

Random numbers follow from SEED, which every random test prints. Chi-squares are held against a value that a fair draw
passes once in a million times.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from helpers.run_turn_loops import elsewhere, on_cpu

from arena import BatchArena
from arena.encoders.orientation import BOARD_ACTIONS, LOCAL_ACTIONS, ORIENTATIONS
from arena.rng import match_key
from arena.rules import DIRECTION, LENGTH, MATCH_BYTES, OVER, SNAKES, TEAM, TURN
from marl.config.reward_config import RewardConfig
from marl.rollout import turn_loops as loops
from opponents.scheduler import LADDER, ScheduleConfig, Scheduler, choose

SEED = 20_240_611
# Degrees of freedom -> chi-square that chance exceeds once in a million times.
RARE = {2: 27.6, 3: 30.7, 4: 33.4, 39: 95.6}


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


# --- moves ------------------------------------------------------------------------------------------------------------


def drawn(
    logits: np.ndarray,
    direction: np.ndarray,
    epsilon: float,
    keys: np.ndarray,
    turn: int = 7,
    snake: int = 0,
    masked: bool = True,
    frame: int = 0,
) -> np.ndarray:
    """Moves of one snake in as many matches as there are keys."""
    matches = len(keys)
    state = np.zeros((matches, MATCH_BYTES), np.uint8)
    state[:, TURN] = turn
    state[:, DIRECTION + snake] = direction
    seats = (np.arange(matches) * SNAKES + snake).astype(np.int32)
    moves = np.full((matches, SNAKES), -1, np.int8)
    logits = np.ascontiguousarray(np.broadcast_to(logits, (matches, 4)), np.float32)
    frames = np.full(matches, frame, np.int8)
    loops.draw_all_moves(state, keys, seats, frames, logits, np.array([epsilon], np.float32), masked, moves)
    others = np.delete(moves, snake, 1)
    assert (others == -1).all(), "wrote the move of a seat that was not asked for"
    return moves[:, snake]


def some_keys(count: int, seed: int = SEED) -> np.ndarray:
    arena = BatchArena(count, seed=seed)
    arena.start()
    return arena.keys.numpy().copy()


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e5, 1e30])
def test_a_drawn_move_never_reverses(epsilon, scale) -> None:
    generator = np.random.default_rng(SEED)
    directions = generator.integers(0, 4, 5000)
    logits = generator.normal(0, 1, (5000, 4)) * scale
    moves = drawn(logits, directions, epsilon, some_keys(5000))
    assert ((moves >= 0) & (moves < 4)).all()
    assert (moves != (directions ^ 1)).all()


LOGITS = np.array([0.7, -0.4, 1.5, -1.0])


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("direction", range(4))
def test_moves_follow_the_softmax_of_the_legal_logits_and_epsilon(direction, epsilon) -> None:
    count = 40_000
    moves = drawn(LOGITS, np.full(count, direction), epsilon, some_keys(count))
    legal = [move for move in range(4) if move != direction ^ 1]
    softmax = np.exp(LOGITS[legal]) / np.exp(LOGITS[legal]).sum()
    expected = count * (epsilon / 3 + (1 - epsilon) * softmax)
    counts = np.bincount(moves, minlength=4)[legal]
    assert chi_square(counts, expected) < RARE[2], f"{counts} of {expected}"


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("direction", [0, 3])
def test_without_a_mask_all_four_moves_are_drawn(direction, epsilon) -> None:
    count = 40_000
    moves = drawn(LOGITS, np.full(count, direction), epsilon, some_keys(count), masked=False)
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum()
    expected = count * (epsilon / 4 + (1 - epsilon) * softmax)
    counts = np.bincount(moves, minlength=4)
    assert chi_square(counts, expected) < RARE[3], f"{counts} of {expected}"


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("frame", range(ORIENTATIONS))
def test_logits_of_a_frame_are_those_of_the_board_turned_into_it(frame, masked) -> None:
    """Whatever chance decides: a clear best, of which only a reversal is barred."""
    for direction, best in product(range(4), range(4)):
        on_board = np.where(np.arange(4) == best, 1e4, -1e4) + np.where(np.arange(4) == direction, 1e3, 0)
        logits = on_board[BOARD_ACTIONS[frame]]
        expected = direction if masked and best == direction ^ 1 else best
        moves = drawn(logits, np.full(20, direction), 0.0, some_keys(20), masked=masked, frame=frame)
        assert (moves == expected).all(), (frame, direction, best)


@pytest.mark.parametrize("best", range(4))
def test_without_a_mask_a_clear_best_is_taken_even_if_it_reverses(best) -> None:
    logits = np.where(np.arange(4) == best, 1e4, -1e4)
    assert (drawn(logits, np.arange(400) % 4, 0.0, some_keys(400), masked=False) == best).all()


def test_softmax_does_not_change_if_all_logits_rise() -> None:
    keys = some_keys(5000)
    directions = np.random.default_rng(SEED).integers(0, 4, 5000)
    assert (drawn(LOGITS + 64, directions, 0, keys) == drawn(LOGITS, directions, 0, keys)).all()


@pytest.mark.parametrize("best", range(4))
def test_a_clear_best_is_taken_unless_it_reverses(best) -> None:
    logits = np.where(np.arange(4) == best, 1e4, -1e4)
    directions = np.arange(2000) % 4
    moves = drawn(logits, directions, 0.0, some_keys(2000))
    allowed = directions != best ^ 1
    assert (moves[allowed] == best).all()
    counts = np.bincount(moves[~allowed], minlength=4)
    assert (np.delete(counts, best) > 100).all(), f"the other three are alike: {counts}"


def test_a_move_depends_on_match_turn_and_snake_and_not_on_the_batch() -> None:
    generator = np.random.default_rng(SEED)
    keys = some_keys(300)
    directions, logits = generator.integers(0, 4, 300), generator.normal(0, 2, (300, 4))
    together = drawn(logits, directions, 0.3, keys)
    order = generator.permutation(300)
    for part in (order, order[:17], order[5:6]):
        assert (drawn(logits[part], directions[part], 0.3, keys[part]) == together[part]).all()


@pytest.mark.parametrize("other", [{"turn": 8}, {"snake": 1}, {"turn": 0}, {"snake": 5}])
def test_moves_of_other_turns_and_snakes_are_independent(other) -> None:
    count = 20_000
    keys, up = some_keys(count), np.zeros(count, int)
    a, b = drawn(np.zeros(4), up, 0.0, keys), drawn(np.zeros(4), up, 0.0, keys, **other)
    table = np.zeros((4, 4))
    np.add.at(table, (a, b), 1)
    table = np.delete(np.delete(table, 1, 0), 1, 1)  # down is barred
    expected = table.sum(1, keepdims=True) * table.sum(0) / count
    assert chi_square(table, expected) < RARE[4], table


def test_exploring_and_the_move_explored_are_independent() -> None:
    """One draw says whether to explore, another one where to: else random moves would lean to one side."""
    count = 60_000
    keys, up = some_keys(count), np.zeros(count, int)
    sure = np.where(np.arange(4) == 3, 1e4, 0.0)
    counts = np.bincount(drawn(sure, up, 0.5, keys), minlength=4)
    expected = count * np.array([0.5 / 3, 0.5 / 3, 0.5 + 0.5 / 3])
    assert chi_square(counts[[0, 2, 3]], expected) < RARE[2], counts


# --- whom a match meets -----------------------------------------------------------------------------------------------

MIXES = {
    "one": {"level0": 1.0},
    "one, others left out": {"level3": 1.0},
    "the last one": {"territory": 1.0},
    "zeros first": {"level0": 0.0, "level1": 0.0, "level2": 0.3, "level3": 0.7},
    "zeros within": {"level0": 0.1, "level1": 0.0, "level2": 0.0, "level3": 0.9},
    "zeros last": {"level0": 0.5, "level1": 0.5, "level2": 0.0},
    "sums that round": dict.fromkeys(LADDER, 0.1),
    "hardly ever": {"level0": 1e-4, "level1": 1 - 1e-4},
    **{
        f"rung {rung}": Scheduler(ScheduleConfig()).mix([0, 10**4, 2 * 10**4, 35_000, 50_000][rung])
        for rung in range(5)
    },
}


def free(matches: int) -> np.ndarray:
    """No match has an opponent beforehand."""
    return np.full(matches, loops.NOBODY, np.int16)


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("seed", [1, 2**40 + 5])
def test_a_match_meets_whom_the_scheduler_chooses(name, seed) -> None:
    mix, first, count = MIXES[name], 12_345, 5_000
    arena = BatchArena(count, seed=seed, first_match=first)
    arena.start()
    which = np.full(count, 99, np.uint8)
    edges = np.cumsum([mix.get(opponent, 0.0) for opponent in LADDER])
    loops.meet_all(arena.state.numpy(), arena.keys.numpy(), edges, free(count), which)
    assert [LADDER[i] for i in which] == [choose(mix, seed, first + k) for k in range(count)], f"seed {seed}"


def test_only_matches_about_to_begin_meet_somebody() -> None:
    arena = BatchArena(4, seed=SEED)
    arena.start()
    arena.state[1, TURN] = 1
    arena.state[2, OVER] = 1
    which = np.full(4, 9, np.uint8)
    loops.meet_all(arena.state.numpy(), arena.keys.numpy(), np.array([0.0, 1.0]), free(4), which)
    assert which.tolist() == [1, 9, 9, 1]


def test_a_match_with_an_opponent_of_its_own_meets_that_one_whatever_the_mix() -> None:
    arena = BatchArena(6, seed=SEED)
    arena.start()
    arena.state[4, TURN] = 1
    which = np.full(6, 9, np.uint8)
    fixed = np.array([loops.NOBODY, 3, 7, 0, 5, loops.NOBODY], np.int16)
    loops.meet_all(arena.state.numpy(), arena.keys.numpy(), np.array([0.0, 1.0]), fixed, which)
    assert which.tolist() == [1, 3, 7, 0, 9, 1]


# --- rewards and accounts ---------------------------------------------------------------------------------------------

# One turn: red ends it with 5 + 4 + 3 segments, blue with 3 + 3 + 4. Snakes 0 and 3 ate; snakes 1 and 5 died.
LENGTHS = (5, 4, 3, 3, 3, 4)
GAINS = (1, -2, 0, 1, 0, -3)
ATE = (1, 0, 0, 1, 0, 0)
DIED = (0, 1, 0, 0, 0, 1)
PLAIN = dict.fromkeys(("own", "mates", "foes"), 0.0)
REWARDS = [  # weights, match over, rewards of red's three snakes, of blue's
    ({}, False, (0, 0, 0), (0, 0, 0)),
    ({"own": 1.0}, False, (1, -2, 0), (1, 0, -3)),
    ({"mates": 1.0}, False, (-2, 1, -1), (-3, -2, 1)),
    ({"foes": 1.0}, False, (2, 2, 2), (1, 1, 1)),
    ({"eat": 2.0}, False, (2, 0, 0), (2, 0, 0)),
    ({"die": 4.0}, False, (0, -4, 0), (0, 0, -4)),
    ({"lead": 0.5}, False, (0.5, 0.5, 0.5), (-0.5, -0.5, -0.5)),
    ({"lead": 0.5}, True, (0.5, 0.5, 0.5), (-0.5, -0.5, -0.5)),
    ({"win": 8.0}, False, (0, 0, 0), (0, 0, 0)),
    ({"win": 8.0}, True, (8, 8, 8), (-8, -8, -8)),
    (
        {"own": 1.0, "mates": 0.5, "foes": 0.25, "eat": 2.0, "die": 4.0, "lead": 0.125, "win": 8.0},
        True,
        (1 - 1 + 0.5 + 2 + 8.125, -2 + 0.5 + 0.5 - 4 + 8.125, 0 - 0.5 + 0.5 + 8.125),
        (1 - 1.5 + 0.25 + 2 - 8.125, 0 - 1 + 0.25 - 8.125, -3 + 0.5 + 0.25 - 4 - 8.125),
    ),
]


class Accounts:
    """The arrays that finish_all works on, for B matches; of those in `both`, the other side learns as well."""

    def __init__(
        self,
        matches: int,
        turns: int = 4,
        opponents: int = 3,
        weights: dict[str, Any] | None = None,
        both: Sequence[int] = (),
    ) -> None:
        self.state = np.zeros((matches, MATCH_BYTES), np.uint8)
        self.played = np.zeros((matches, SNAKES), np.int8)
        self.ate, self.died = np.zeros((2, matches, SNAKES), bool)
        self.gain = np.zeros((matches, SNAKES), np.int16)
        self.over = np.zeros(matches, bool)
        self.slot = np.array([*range(matches), *both], np.int32)
        teams = len(self.slot)
        self.side, self.frames = np.zeros(teams, np.uint8), np.zeros(teams * TEAM, np.int8)
        self.opponent_id = np.zeros(matches, np.uint8)
        self.weights = np.array(RewardConfig(**(PLAIN | (weights or {}))).weights(), np.float32)
        self.counts = np.zeros(2, np.int64)
        self.moves = np.full((turns, teams, TEAM), -1, np.int8)
        self.rewards = np.full((turns, teams, TEAM), np.nan, np.float32)
        self.ended = np.zeros((turns, teams), bool)
        self.totals = np.zeros((matches, 2, TEAM), np.float32)
        self.tally = np.zeros((matches, opponents, 3), np.int64)

    def finish(self) -> None:
        loops.finish_all(*vars(self).values())

    def turn_of_the_table(self, swap: bool = False) -> None:
        """All matches play the turn above; `swap` exchanges the teams' colours."""
        order = [3, 4, 5, 0, 1, 2] if swap else range(SNAKES)
        self.state[:, LENGTH : LENGTH + SNAKES] = np.array(LENGTHS)[order]
        self.gain[:], self.ate[:], self.died[:] = np.array(GAINS)[order], np.array(ATE)[order], np.array(DIED)[order]


@pytest.mark.parametrize(("weights", "over", "red", "blue"), REWARDS)
def test_rewards_worked_by_hand(weights, over, red, blue) -> None:
    accounts = Accounts(2, weights=weights)
    accounts.turn_of_the_table()
    accounts.over[:] = over
    accounts.side[:] = 0, 1
    accounts.finish()
    assert accounts.rewards[0].tolist() == [list(red), list(blue)]
    swapped = Accounts(2, weights=weights)
    swapped.turn_of_the_table(swap=True)
    swapped.over[:] = over
    swapped.side[:] = 1, 0
    swapped.finish()
    assert swapped.rewards[0].tolist() == [list(red), list(blue)], "colours must not matter"


# The same turn, over, by presets: team is own + 0.15 mates - 0.15 foes, shaped adds eating, dying, leading, winning.
PRESETS = {
    "score": ((1, -2, 0), (1, 0, -3)),
    "team": ((1 - 0.3 + 0.3, -2 + 0.15 + 0.3, -0.15 + 0.3), (1 - 0.45 + 0.15, -0.3 + 0.15, -3 + 0.15 + 0.15)),
    "win": ((10, 10, 10), (-10, -10, -10)),
    "shaped": (
        (1 + 0.2 + 3.01, -1.55 - 0.5 + 3.01, 0.15 + 3.01),
        (0.7 + 0.2 - 3.01, -0.15 - 3.01, -2.7 - 0.5 - 3.01),
    ),
}


@pytest.mark.parametrize("zero_sum", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
def test_rewards_of_presets_worked_by_hand(preset, zero_sum) -> None:
    """Zero-sum, each snake's less the mean of its foes': what all six get adds up to nothing."""
    accounts = Accounts(2, weights=dict.fromkeys(PLAIN) | {"preset": preset, "zero_sum": zero_sum})
    accounts.turn_of_the_table()
    accounts.over[:] = True
    accounts.side[:] = 0, 1
    accounts.finish()
    red, blue = (np.array(team) for team in PRESETS[preset])
    if zero_sum:
        red, blue = red - blue.mean(), blue - red.mean()
        assert accounts.rewards[0].sum() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(accounts.rewards[0], [red, blue], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("what", ["lead", "win"])
def test_a_tie_is_neither_a_lead_nor_a_win(what) -> None:
    accounts = Accounts(2, weights={what: 1.0})
    accounts.state[:, LENGTH : LENGTH + SNAKES] = 3, 4, 5, 5, 5, 2
    accounts.over[:] = True
    accounts.side[:] = 0, 1
    accounts.finish()
    assert (accounts.rewards[0] == 0).all()


def test_the_defaults_are_the_rewards_that_the_configuration_names() -> None:
    assert RewardConfig().weights() == [1.0, 0.15, 0.15, 0, 0, 0, 0, 0]
    columns = {name: i for i, name in enumerate(("own", "mates", "foes", "eat", "die", "lead", "win", "zero_sum"))}
    assert {name: getattr(loops, name.upper()) for name in columns} == columns


@pytest.mark.parametrize(
    ("side", "lengths", "column"),
    [
        (0, (5, 4, 3, 3, 3, 4), 0),
        (1, (5, 4, 3, 3, 3, 4), 2),
        (0, (3, 3, 3, 3, 3, 4), 2),
        (1, (3, 3, 3, 3, 3, 4), 0),
        (0, (3, 3, 4, 4, 3, 3), 1),
        (1, (3, 3, 4, 4, 3, 3), 1),
    ],
)
def test_a_finished_match_counts_as_won_drawn_or_lost(side, lengths, column) -> None:
    accounts = Accounts(1)
    accounts.state[0, LENGTH : LENGTH + SNAKES] = lengths
    accounts.side[0], accounts.opponent_id[0], accounts.over[0] = side, 2, True
    accounts.finish()
    expected = np.zeros((3, 3), int)
    expected[2, column] = 1
    assert accounts.tally[0].tolist() == expected.tolist()


def test_accounts_over_many_turns() -> None:
    """Rows go round the ring, totals add up by match and by slot, tallies by opponent: as a diary would have it."""
    generator = np.random.default_rng(SEED)
    matches, turns = 6, 5
    accounts = Accounts(matches, turns, weights={"own": 1.0, "mates": 0.25, "foes": 0.5, "eat": 0.5, "die": 1.0})
    accounts.side[:] = np.arange(matches) % 2
    running, finished = np.zeros((2, matches, TEAM))
    tally = np.zeros_like(accounts.tally)
    for turn in range(60):
        accounts.state[:, LENGTH : LENGTH + SNAKES] = generator.integers(3, 9, (matches, SNAKES))
        accounts.gain[:] = generator.integers(-4, 2, (matches, SNAKES))
        accounts.ate[:], accounts.died[:] = generator.random((2, matches, SNAKES)) < 0.3
        accounts.played[:] = generator.integers(0, 4, (matches, SNAKES))
        accounts.over[:] = generator.random(matches) < 0.2
        accounts.opponent_id[:] = generator.integers(0, 3, matches)
        accounts.counts[0] = turn
        rows_before = accounts.rewards.copy()
        accounts.finish()
        at = turn % turns
        untouched = [i for i in range(turns) if i != at]
        np.testing.assert_array_equal(accounts.rewards[untouched], rows_before[untouched])
        assert (accounts.ended[at] == accounts.over).all()
        for b in range(matches):
            own = [accounts.side[b] * TEAM + k for k in range(TEAM)]
            foes = [snake for snake in range(SNAKES) if snake not in own]
            lengths = accounts.state[b, LENGTH : LENGTH + SNAKES].astype(int)
            gain = accounts.gain[b].astype(int)
            for k, snake in enumerate(own):
                mates = [mate for mate in own if mate != snake]
                reward = gain[snake] + 0.25 * gain[mates].sum() - 0.5 * gain[foes].sum()
                reward += 0.5 * accounts.ate[b, snake] - 1.0 * accounts.died[b, snake]
                assert accounts.rewards[at, b, k] == reward
                assert accounts.moves[at, b, k] == accounts.played[b, snake]
                running[b, k] += reward
            if accounts.over[b]:
                finished[b] += running[b]
                running[b] = 0
                lead = lengths[own].sum() - lengths[foes].sum()
                tally[b, accounts.opponent_id[b], 0 if lead > 0 else 2 if lead < 0 else 1] += 1
        np.testing.assert_array_equal(accounts.totals[:, 0], running)
        np.testing.assert_array_equal(accounts.totals[:, 1], finished)
        np.testing.assert_array_equal(accounts.tally, tally)
    assert tally.sum() > 30


def test_a_match_in_which_both_sides_learn_has_two_rows_and_one_account() -> None:
    accounts = Accounts(3, weights={"own": 1.0, "win": 8.0}, both=(1, 2))
    accounts.turn_of_the_table()
    accounts.side[:] = 0, 1, 0, 0, 1  # the last two are the other sides of matches 1 and 2
    accounts.played[:] = np.arange(18).reshape(3, SNAKES) % 4
    accounts.frames[:] = np.arange(15) % ORIENTATIONS
    accounts.opponent_id[:] = 0, 2, 2
    accounts.over[:] = False, True, True
    accounts.finish()
    red, blue = np.array([1, -2, 0]), np.array([1, 0, -3])
    np.testing.assert_array_equal(accounts.rewards[0], [red, blue - 8, red + 8, red + 8, blue - 8])
    played = accounts.played.reshape(6, TEAM)[[0, 3, 4, 2, 5]]
    np.testing.assert_array_equal(accounts.moves[0], LOCAL_ACTIONS[accounts.frames.reshape(5, TEAM), played])
    assert accounts.ended[0].tolist() == [False, True, True, True, True]
    np.testing.assert_array_equal(accounts.totals[:, 0], [red, [0] * 3, [0] * 3])
    np.testing.assert_array_equal(accounts.totals[:, 1], [[0] * 3, blue - 8, red + 8])
    assert accounts.tally[:, 2].tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert accounts.tally.sum() == 2


# --- rows of a batch --------------------------------------------------------------------------------------------------


class Rows:
    """A ring in which every reward tells its turn, slot and snake, and the batch that sample_all draws from it."""

    def __init__(
        self, turns: int, slots: int, written: int, steps: int, gamma: float, rows: int, update: int = 0
    ) -> None:
        self.turns, self.slots = turns, slots
        ring = np.zeros((turns, slots, TEAM), np.float32)
        for number in range(max(0, written - turns), written):  # numbers of turns; those overwritten are gone
            ring[number % turns] = 1000 * number + 10 * np.arange(slots)[:, None] + np.arange(TEAM)
        self.rewards = ring
        self.over = np.zeros((turns, slots), bool)
        self.moves = (np.arange(turns * slots * TEAM).reshape(turns, slots, TEAM) % 4).astype(np.int8)
        self.counts = np.array([written, update])
        self.steps, self.gamma = steps, gamma
        self.here, self.there = np.zeros((2, rows), np.int64)
        self.returns = np.full((rows, TEAM), np.nan, np.float32)
        self.discounts = np.full(rows, np.nan, np.float32)
        self.shares = np.full((rows, TEAM, 4), np.nan, np.float32)

    def draw(self, key: int = 77, update: int | None = None) -> "Rows":
        if update is not None:
            self.counts[1] = update
        loops.sample_all(
            *(key, self.counts, self.rewards, self.over, self.moves, self.steps, self.gamma),
            *(self.here, self.there, self.returns, self.discounts, self.shares),
        )
        return self

    @property
    def turn_numbers(self) -> np.ndarray:
        """Which turn, of all ever written, each row begins with: read from its reward."""
        return self.rewards[self.here // self.slots, self.here % self.slots, 0].astype(int) // 1000


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("written", [6, 7, 9, 10, 11, 12, 19, 20, 23, 1005])
def test_rows_begin_at_every_turn_whose_followers_are_held_and_at_no_other(written, steps) -> None:
    rows = Rows(turns=10, slots=3, written=written, steps=steps, gamma=1.0, rows=3000).draw()
    assert set(rows.turn_numbers) == set(range(max(0, written - 10), written - steps))
    assert set(rows.here % 3) == {0, 1, 2}
    assert (rows.here % 3 == rows.there % 3).all(), "the row n turns later is of the same slot"
    later = rows.rewards[rows.there // 3, rows.there % 3, 0].astype(int) // 1000
    assert (later == rows.turn_numbers + steps).all(), "the row n turns later is never across the write position"


def test_the_fewest_turns_that_can_be_drawn_from() -> None:
    rows = Rows(turns=10, slots=3, written=4, steps=3, gamma=1.0, rows=50).draw()
    assert set(rows.turn_numbers) == {0}
    assert set(rows.there // 3) == {3}


@pytest.mark.parametrize("written", [9, 33])
def test_turns_and_slots_are_drawn_uniformly(written) -> None:
    turns, slots, steps = 9, 5, 1
    counts = np.zeros((8, slots))
    rows = Rows(turns, slots, written, steps, 1.0, rows=500)
    for update in range(80):
        rows.draw(update=update)
        np.add.at(counts, (rows.turn_numbers - max(0, written - turns), rows.here % slots), 1)
    assert chi_square(counts, np.full(counts.shape, counts.sum() / counts.size)) < RARE[39], counts


def test_a_row_depends_on_key_update_and_its_number_alone() -> None:
    few = Rows(50, 7, 40, 3, 1.0, rows=5).draw(key=3, update=9)
    many = Rows(50, 7, 40, 3, 1.0, rows=100).draw(key=3, update=9)
    assert (many.here[:5] == few.here).all()
    assert (many.here != Rows(50, 7, 40, 3, 1.0, rows=100).draw(key=3, update=10).here).any()
    assert (many.here != Rows(50, 7, 40, 3, 1.0, rows=100).draw(key=4, update=9).here).any()
    assert len(set(many.here)) > 50, "rows of one batch are drawn one by one"


# Rewards 1, 2, 4, 8, ... at turns 0, 1, 2, 3, ...; gamma 0.5. Drawn from a buffer that allows the first turn only.
N_STEP = [  # steps, turns at which a match ends, return from turn 0, discount of what follows
    (1, (), 1.0, 0.5),
    (1, (0,), 1.0, 0.0),
    (2, (), 1 + 1.0, 0.25),
    (3, (), 1 + 1 + 1.0, 0.125),
    (3, (0,), 1.0, 0.0),
    (3, (1,), 1 + 1.0, 0.0),
    (3, (2,), 1 + 1 + 1.0, 0.0),  # exactly at the n-th
    (3, (3,), 1 + 1 + 1.0, 0.125),  # after it: not its business
    (3, (0, 1), 1.0, 0.0),
    (3, (1, 2), 1 + 1.0, 0.0),
    (5, (3,), 1 + 1 + 1 + 1.0, 0.0),
    (5, (), 5.0, 0.03125),
]


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize(("steps", "ends", "expected", "discount"), N_STEP)
def test_returns_worked_by_hand(steps, ends, expected, discount, shift) -> None:
    """Also where the ring's end lies within the turns."""
    turns = steps + 1
    rows = Rows(turns, 1, turns + shift, steps, 0.5, rows=4)
    for turn in range(turns):
        at = (turn + shift) % turns
        rows.rewards[at, 0] = np.array([1, 10, -1]) * 2.0**turn
        rows.over[at, 0] = turn in ends
        rows.moves[at, 0] = 3, 0, 2
    rows.draw()
    assert (rows.here == shift % turns).all()
    np.testing.assert_array_equal(rows.returns, np.tile([expected, 10 * expected, -expected], (4, 1)))
    np.testing.assert_array_equal(rows.discounts, np.full(4, discount))
    np.testing.assert_array_equal(rows.shares, np.tile(np.eye(4)[[3, 0, 2]], (4, 1, 1)))


def test_rows_of_a_random_buffer_are_what_a_slow_look_says() -> None:
    generator = np.random.default_rng(SEED)
    rows = Rows(12, 4, 31, 3, 0.97, rows=200)
    rows.rewards[:] = generator.normal(0, 1, rows.rewards.shape)
    rows.over[:] = generator.random(rows.over.shape) < 0.2
    rows.draw()
    for i in range(200):
        turn, slot = divmod(rows.here[i], 4)
        total, discount = np.zeros(TEAM), 1.0
        for n in range(3):
            total += discount * rows.rewards[(turn + n) % 12, slot]
            discount *= 0.97 * (not rows.over[(turn + n) % 12, slot])
        np.testing.assert_allclose(rows.returns[i], total, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rows.discounts[i], discount, rtol=1e-6)
        assert rows.there[i] == (turn + 3) % 12 * 4 + slot
        np.testing.assert_array_equal(rows.shares[i], np.eye(4)[rows.moves[turn, slot]])


# --- plain Python and the CUDA simulator ------------------------------------------------------------------------------


def given(matches: int) -> dict[str, np.ndarray]:
    """Arrays for all loops. Rewards and weights are sums of powers of two, so that every way of adding is exact."""
    generator = np.random.default_rng(SEED)
    arena = BatchArena(matches, seed=SEED)
    arena.start()
    for _ in range(30):
        events = arena.play_turn(torch.from_numpy(generator.integers(0, 4, (matches, SNAKES))))
    ate, died, gain = (tensor.numpy().copy() for tensor in events[:3])
    arena.start(torch.arange(matches) % 3 == 0)  # so that some are about to begin
    seats = (np.arange(matches * TEAM) * 2).astype(np.int32)
    turns, held, rows, both = 7, 5, 21, (1, matches - 2)
    teams = matches + len(both)

    def some(*shape: int) -> np.ndarray:
        return generator.normal(0, 1, shape).astype(np.float32)

    weights = [1, 0.25, 0.5, 0.125, 2, 0.5, 4]
    finished = {
        "MOVES": np.full((turns, teams, TEAM), -1, np.int8),
        "REWARDS": np.zeros((turns, teams, TEAM), np.float32),
        "ENDED": np.zeros((turns, teams), bool),
        "TOTALS": generator.integers(-8, 8, (matches, 2, TEAM)).astype(np.float32),
        "TALLY": generator.integers(0, 8, (matches, 4, 3)),
    }
    return {
        "state": arena.state.numpy(),
        "keys": arena.keys.numpy(),
        "seats": seats,
        "frames": generator.integers(0, ORIENTATIONS, teams * TEAM).astype(np.int8),
        "logits": generator.normal(0, 2, (len(seats), 4)).astype(np.float32),
        "epsilon": np.array([0.3], np.float32),
        **dict.fromkeys(("DRAWN", "DRAWN_FREELY"), np.full((matches, SNAKES), -1, np.int8)),
        "edges": np.cumsum([0.2, 0.0, 0.3, 0.5]),
        "fixed": np.where(np.arange(matches) % 2, 7, loops.NOBODY).astype(np.int16),
        "WHICH": np.full(matches, 9, np.uint8),
        "played": generator.integers(0, 4, (matches, SNAKES)).astype(np.int8),
        "ate": ate,
        "died": died,
        "gain": gain,
        "over": generator.random(matches) < 0.5,
        "slot": np.array([*range(matches), *both], np.int32),
        "side": np.array([*(b % 2 for b in range(matches)), *(1 - b % 2 for b in both)], np.uint8),
        "met": generator.integers(0, 4, matches).astype(np.uint8),
        "weights": np.array([*weights, 0], np.float32),
        "zero_sum_weights": np.array([*weights, 1], np.float32),
        "counts": np.array([turns + 2, 0]),
        **finished,
        **{f"ZERO_SUM_{name}": array for name, array in finished.items()},
        "held_counts": np.array([held + 20, 11]),
        "held_rewards": (generator.integers(-64, 64, (held, matches, TEAM)) / 16).astype(np.float32),
        "held_over": generator.random((held, matches)) < 0.2,
        "held_moves": generator.integers(0, 4, (held, matches, TEAM)).astype(np.int8),
        "HERE": np.zeros(rows, np.int64),
        "THERE": np.zeros(rows, np.int64),
        "RETURNS": np.zeros((rows, TEAM), np.float32),
        "DISCOUNTS": np.zeros(rows, np.float32),
        "SHARES": np.zeros((rows, TEAM, 4), np.float32),
        "answers": some(len(seats), 5),
        **dict.fromkeys(("BARRED", "FREE_BARRED"), np.full((turns, matches, TEAM), 9, np.int8)),
        **dict.fromkeys(("LOG_CHANCES", "FREE_LOG_CHANCES"), np.zeros((turns, matches, TEAM), np.float32)),
        **dict.fromkeys(("VALUES", "FREE_VALUES"), np.zeros((turns + 1, matches, TEAM), np.float32)),
        "held_values": some(held + 1, matches, TEAM),
        **dict.fromkeys(("ADVANTAGES", "GAE_RETURNS"), np.zeros((held, matches, TEAM), np.float32)),
        "ORDER": np.full(37, -1),
        "here": generator.permutation(held * matches)[:rows],
        "answers_to": some(rows, TEAM, 5),
        "held_barred": generator.integers(-1, 4, (held, matches, TEAM)).astype(np.int8),
        "held_log_chances": some(held, matches, TEAM) / 4 - 1,
        "held_advantages": some(held, matches, TEAM),
        "held_returns": some(held, matches, TEAM),
        "moments": np.array([0.25, 0.75], np.float32),
        "spreads": np.array([0.125, 0.0625], np.float32),
        "GRADIENTS": np.zeros((rows, TEAM, 5), np.float32),
        "NUMBERS": np.zeros((rows * TEAM, 5), np.float32),
    }


# Sums that are not exact: their last bits depend on the format in which a machine adds.
ROUNDED = {"ZERO_SUM_REWARDS", "ZERO_SUM_TOTALS", "LOG_CHANCES", "FREE_LOG_CHANCES", "ADVANTAGES", "GAE_RETURNS"}
ROUNDED |= {"GRADIENTS", "NUMBERS"}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert (array != before[name]).any(), f"{name} was not written"
        tolerance = {"rtol": 1e-5, "atol": 1e-5} if name in ROUNDED else {"rtol": 0}
        np.testing.assert_allclose(found[name], array, **tolerance, err_msg=f"{name}, seed {SEED}")


@pytest.mark.parametrize(
    ("where", "environment"),
    [
        ("cpu", {"NUMBA_DISABLE_JIT": "1"}),
        ("simulator", {"NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": "1"}),
    ],
    ids=["plain Python", "kernels in the simulator"],
)
def test_every_loop_writes_the_same_elsewhere(where, environment, tmp_path) -> None:
    arrays = given(11)
    expected = on_cpu(arrays)
    found = elsewhere(where, arrays, tmp_path, **environment)
    assert_same(found, expected, arrays)


@pytest.mark.needs_cuda
def test_a_gpu_writes_what_the_cpu_writes() -> None:
    from helpers.run_turn_loops import run_all

    from arena.backends.cuda import launch
    from marl.rollout import turn_kernels

    device = torch.device("cuda")

    def call(loop: str, items: int, *arguments) -> None:
        there = [torch.from_numpy(a).to(device) if isinstance(a, np.ndarray) else a for a in arguments]
        launch(getattr(turn_kernels, loop), items, device, *there)
        for mine, its in zip(arguments, there, strict=True):
            if isinstance(mine, np.ndarray):
                mine[...] = its.cpu().numpy()

    arrays = given(300)
    assert_same(run_all(arrays, call), on_cpu(arrays), arrays)


def test_batches_of_ranks_differ() -> None:
    keys = {int(match_key(1, (1 << 40) + rank)) for rank in range(64)}
    assert len(keys) == 64
    a, b = (Rows(50, 7, 40, 3, 1.0, rows=100).draw(key=key) for key in sorted(keys)[:2])
    assert (a.here != b.here).mean() > 0.9
