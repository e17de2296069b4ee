"""The loops of a turn, one by one: actions drawn, opponents assigned, rows and results written.

Random numbers follow from SEED, which every random test prints. Chi-squares are held against a value that a fair draw
passes once in a million times. Rewards are in tests/marl/test_rewards.py, all loops in plain Python and as kernels in
tests/marl/learners/test_kernel_parity.py.
"""

from itertools import product

import numpy as np
import pytest
from helpers.chosen_opponent import chosen_opponent
from helpers.finished_turn import FinishedTurn

from arena import BatchArena
from arena.encoders.orientation import BOARD_ACTIONS, LOCAL_ACTIONS, ORIENTATIONS
from arena.rules import DIRECTION, LENGTH, MATCH_BYTES, OVER, SNAKES, TEAM, TURN
from marl.rollout.turn_kernels import NONE, Matches, Seats, assign_opponents, draw_actions
from opponents.scheduler import LADDER, ScheduleConfig, Scheduler

SEED = 20_240_611
# Degrees of freedom -> chi-square that chance exceeds once in a million times.
RARE = {2: 27.6, 3: 30.7, 4: 33.4}


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


# --- actions ----------------------------------------------------------------------------------------------------------


def drawn(
    logits: np.ndarray,
    direction: np.ndarray,
    epsilon: float,
    keys: np.ndarray,
    turn: int = 7,
    snake: int = 0,
    masks_reversal: bool = True,
    orientation: int = 0,
) -> np.ndarray:
    """Actions on the board of one snake in as many matches as there are keys."""
    count = len(keys)
    state = np.zeros((count, MATCH_BYTES), np.uint8)
    state[:, TURN] = turn
    state[:, DIRECTION + snake] = direction
    seats = Seats(
        (np.arange(count) * SNAKES + snake).astype(np.int32),
        np.full(count, orientation, np.int8),
        np.ascontiguousarray(np.broadcast_to(logits, (count, 4)), np.float32),
    )
    actions = np.full((count, SNAKES), -1, np.int8)
    given = (Matches(state, keys), seats, np.array([epsilon], np.float32), masks_reversal, actions)
    draw_actions.cpu_loop()(0, count, given)
    others = np.delete(actions, snake, 1)
    assert (others == -1).all(), "wrote the action of a seat that was not asked for"
    return actions[:, snake]


def some_keys(count: int, seed: int = SEED) -> np.ndarray:
    arena = BatchArena(count, seed=seed)
    arena.start()
    return arena.keys.numpy().copy()


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e5, 1e30])
def test_a_drawn_action_never_reverses(epsilon, scale) -> None:
    generator = np.random.default_rng(SEED)
    directions = generator.integers(0, 4, 5000)
    logits = generator.normal(0, 1, (5000, 4)) * scale
    actions = drawn(logits, directions, epsilon, some_keys(5000))
    assert ((actions >= 0) & (actions < 4)).all()
    assert (actions != (directions ^ 1)).all()


LOGITS = np.array([0.7, -0.4, 1.5, -1.0])


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("direction", range(4))
def test_actions_follow_the_softmax_of_the_legal_logits_and_epsilon(direction, epsilon) -> None:
    count = 40_000
    actions = drawn(LOGITS, np.full(count, direction), epsilon, some_keys(count))
    legal = [action for action in range(4) if action != direction ^ 1]
    softmax = np.exp(LOGITS[legal]) / np.exp(LOGITS[legal]).sum()
    expected = count * (epsilon / 3 + (1 - epsilon) * softmax)
    counts = np.bincount(actions, minlength=4)[legal]
    assert chi_square(counts, expected) < RARE[2], f"{counts} of {expected}"


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("direction", [0, 3])
def test_without_a_mask_all_four_actions_are_drawn(direction, epsilon) -> None:
    count = 40_000
    actions = drawn(LOGITS, np.full(count, direction), epsilon, some_keys(count), masks_reversal=False)
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum()
    expected = count * (epsilon / 4 + (1 - epsilon) * softmax)
    counts = np.bincount(actions, minlength=4)
    assert chi_square(counts, expected) < RARE[3], f"{counts} of {expected}"


@pytest.mark.parametrize("masks_reversal", [True, False])
@pytest.mark.parametrize("orientation", range(ORIENTATIONS))
def test_logits_are_those_of_local_actions(orientation, masks_reversal) -> None:
    """Whatever chance decides: a clear best, which is taken unless it is a masked reversal."""
    for direction, best in product(range(4), range(4)):
        on_board = np.where(np.arange(4) == best, 1e4, -1e4) + np.where(np.arange(4) == direction, 1e3, 0)
        logits = on_board[BOARD_ACTIONS[orientation]]
        expected = direction if masks_reversal and best == direction ^ 1 else best
        actions = drawn(
            logits, np.full(20, direction), 0.0, some_keys(20), masks_reversal=masks_reversal, orientation=orientation
        )
        assert (actions == expected).all(), (orientation, direction, best)


@pytest.mark.parametrize("best", range(4))
def test_without_a_mask_a_clear_best_is_taken_even_if_it_reverses(best) -> None:
    logits = np.where(np.arange(4) == best, 1e4, -1e4)
    assert (drawn(logits, np.arange(400) % 4, 0.0, some_keys(400), masks_reversal=False) == best).all()


def test_softmax_does_not_change_if_all_logits_rise() -> None:
    keys = some_keys(5000)
    directions = np.random.default_rng(SEED).integers(0, 4, 5000)
    assert (drawn(LOGITS + 64, directions, 0, keys) == drawn(LOGITS, directions, 0, keys)).all()


@pytest.mark.parametrize("best", range(4))
def test_a_clear_best_is_taken_unless_it_reverses(best) -> None:
    logits = np.where(np.arange(4) == best, 1e4, -1e4)
    directions = np.arange(2000) % 4
    actions = drawn(logits, directions, 0.0, some_keys(2000))
    allowed = directions != best ^ 1
    assert (actions[allowed] == best).all()
    counts = np.bincount(actions[~allowed], minlength=4)
    assert (np.delete(counts, best) > 100).all(), f"the other three are alike: {counts}"


def test_an_action_depends_on_match_turn_and_snake_and_not_on_the_batch() -> None:
    generator = np.random.default_rng(SEED)
    keys = some_keys(300)
    directions, logits = generator.integers(0, 4, 300), generator.normal(0, 2, (300, 4))
    together = drawn(logits, directions, 0.3, keys)
    order = generator.permutation(300)
    for part in (order, order[:17], order[5:6]):
        assert (drawn(logits[part], directions[part], 0.3, keys[part]) == together[part]).all()


@pytest.mark.parametrize("other", [{"turn": 8}, {"snake": 1}, {"turn": 0}, {"snake": 5}])
def test_actions_of_other_turns_and_snakes_are_independent(other) -> None:
    count = 20_000
    keys, up = some_keys(count), np.zeros(count, int)
    a, b = drawn(np.zeros(4), up, 0.0, keys), drawn(np.zeros(4), up, 0.0, keys, **other)
    table = np.zeros((4, 4))
    np.add.at(table, (a, b), 1)
    table = np.delete(np.delete(table, 1, 0), 1, 1)  # down is masked
    expected = table.sum(1, keepdims=True) * table.sum(0) / count
    assert chi_square(table, expected) < RARE[4], table


def test_exploring_and_the_action_explored_are_independent() -> None:
    """One draw decides whether to explore, another one which action: else random actions would lean to one side."""
    count = 60_000
    keys, up = some_keys(count), np.zeros(count, int)
    sure = np.where(np.arange(4) == 3, 1e4, 0.0)
    counts = np.bincount(drawn(sure, up, 0.5, keys), minlength=4)
    expected = count * np.array([0.5 / 3, 0.5 / 3, 0.5 + 0.5 / 3])
    assert chi_square(counts[[0, 2, 3]], expected) < RARE[2], counts


# --- opponents --------------------------------------------------------------------------------------------------------

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


def assign(arena: BatchArena, mix_cdf, opponent_id: np.ndarray, preset=None) -> list[int]:
    """Opponent ids after the loop; without `preset` no match has an opponent beforehand."""
    preset = np.full(arena.matches, NONE, np.int16) if preset is None else np.array(preset, np.int16)
    matches = Matches(arena.state.numpy(), arena.keys.numpy())
    assign_opponents.cpu_loop()(0, arena.matches, (matches, np.array(mix_cdf, float), preset, opponent_id))
    return opponent_id.tolist()


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("seed", [1, 2**40 + 5])
def test_a_match_meets_the_opponent_that_plain_python_chooses(name, seed) -> None:
    mix, first, count = MIXES[name], 12_345, 5_000
    arena = BatchArena(count, seed=seed, first_match=first)
    arena.start()
    mix_cdf = np.cumsum([mix.get(opponent, 0.0) for opponent in LADDER])
    found = assign(arena, mix_cdf, np.full(count, 99, np.uint8))
    assert [LADDER[i] for i in found] == [chosen_opponent(mix, seed, first + k) for k in range(count)], f"seed {seed}"


def opponents_met(mix_cdf, seed: int, matches: int, first: int = 0) -> list[int]:
    """Opponent ids of these matches of a run."""
    arena = BatchArena(matches, seed=seed, first_match=first)
    arena.start()
    return assign(arena, mix_cdf, np.full(matches, 99, np.uint8))


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 3])
def test_opponents_follow_the_mix(seed) -> None:
    shares, matches = np.array([0.05, 0.0, 0.6, 0.25, 0.1]), 20_000
    counts = np.bincount(opponents_met(shares.cumsum(), seed, matches), minlength=5)
    assert counts[1] == 0
    there = shares > 0
    assert chi_square(counts[there], matches * shares[there]) < RARE[3], f"seed {seed}"


def test_another_seed_meets_other_opponents() -> None:
    assert opponents_met([0.5, 1.0], 1, 64) != opponents_met([0.5, 1.0], 2, 64)


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_opponents_are_the_same_for_any_split_over_ranks(ranks) -> None:
    each = 16 // ranks
    split = [met for rank in range(ranks) for met in opponents_met([0.3, 0.5, 1.0], 5, each, rank * each)]
    assert split == opponents_met([0.3, 0.5, 1.0], 5, 16)


def test_the_opponents_are_pinned() -> None:
    """A change here changes whom every seeded run meets."""
    assert "".join("abc"[met] for met in opponents_met([1, 2, 4], 1, 16)) == "babcccaacccccccc"


def test_only_matches_about_to_begin_get_an_opponent() -> None:
    arena = BatchArena(4, seed=SEED)
    arena.start()
    arena.state[1, TURN] = 1
    arena.state[2, OVER] = 1
    assert assign(arena, [0.0, 1.0], np.full(4, 9, np.uint8)) == [1, 9, 9, 1]


def test_a_match_with_a_preset_opponent_meets_that_one_whatever_the_mix() -> None:
    arena = BatchArena(6, seed=SEED)
    arena.start()
    arena.state[4, TURN] = 1
    preset = [NONE, 3, 7, 0, 5, NONE]
    assert assign(arena, [0.0, 1.0], np.full(6, 9, np.uint8), preset) == [1, 3, 7, 0, 9, 1]


# --- rows and results -------------------------------------------------------------------------------------------------


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
    played = FinishedTurn(1)
    played.state[0, LENGTH : LENGTH + SNAKES] = lengths
    played.teams.side[0], played.opponent_id[0], played.events.over[0] = side, 2, True
    played.finish()
    expected = np.zeros((3, 3), int)
    expected[2, column] = 1
    assert played.results.tally[0].tolist() == expected.tolist()


def test_rows_and_results_over_many_turns() -> None:
    """Rows go round the ring, returns add up by match and by slot, tallies by opponent: as a diary would have it."""
    generator = np.random.default_rng(SEED)
    matches, turns = 6, 5
    played = FinishedTurn(matches, turns, weights={"own": 1.0, "mates": 0.25, "foes": 0.5, "eat": 0.5, "die": 1.0})
    events, rows, results = played.events, played.rows, played.results
    played.teams.side[:] = np.arange(matches) % 2
    running, finished = np.zeros((2, matches, TEAM))
    tally, deaths, ended = (np.zeros_like(each) for each in (results.tally, results.deaths, results.lengths))
    for turn in range(60):
        played.state[:, LENGTH : LENGTH + SNAKES] = generator.integers(3, 9, (matches, SNAKES))
        events.reward[:] = generator.integers(-4, 2, (matches, SNAKES))
        events.ate[:], events.died[:] = generator.random((2, matches, SNAKES)) < 0.3
        played.board_actions[:] = generator.integers(0, 4, (matches, SNAKES))
        events.over[:] = generator.random(matches) < 0.2
        played.opponent_id[:] = generator.integers(0, 3, matches)
        rows.counts[0] = turn
        rows_before = rows.rewards.copy()
        played.finish()
        at = turn % turns
        untouched = [i for i in range(turns) if i != at]
        np.testing.assert_array_equal(rows.rewards[untouched], rows_before[untouched])
        assert (rows.terminated[at] == events.over).all()
        for b in range(matches):
            own = [played.teams.side[b] * TEAM + k for k in range(TEAM)]
            foes = [snake for snake in range(SNAKES) if snake not in own]
            lengths = played.state[b, LENGTH : LENGTH + SNAKES].astype(int)
            gain = events.reward[b].astype(int)
            deaths[b] += [events.died[b, own].sum(), events.died[b, foes].sum()]
            for k, snake in enumerate(own):
                mates = [mate for mate in own if mate != snake]
                reward = gain[snake] + 0.25 * gain[mates].sum() - 0.5 * gain[foes].sum()
                reward += 0.5 * events.ate[b, snake] - 1.0 * events.died[b, snake]
                assert rows.rewards[at, b, k] == reward
                assert rows.actions[at, b, k] == played.board_actions[b, snake]
                running[b, k] += reward
            if events.over[b]:
                finished[b] += running[b]
                running[b] = 0
                ended[b] += [lengths[own].sum(), lengths[foes].sum()]
                lead = lengths[own].sum() - lengths[foes].sum()
                tally[b, played.opponent_id[b], 0 if lead > 0 else 2 if lead < 0 else 1] += 1
        np.testing.assert_array_equal(results.returns[:, 0], running)
        np.testing.assert_array_equal(results.returns[:, 1], finished)
        np.testing.assert_array_equal(results.tally, tally)
        np.testing.assert_array_equal(results.deaths, deaths)
        np.testing.assert_array_equal(results.lengths, ended)
    assert tally.sum() > 30


def test_a_match_in_which_both_sides_learn_has_two_rows_and_one_result() -> None:
    played = FinishedTurn(3, weights={"own": 1.0, "win": 8.0}, both=(1, 2))
    events, rows, results = played.events, played.rows, played.results
    played.play_table()
    played.teams.side[:] = 0, 1, 0, 0, 1  # the last two are the other sides of matches 1 and 2
    played.board_actions[:] = np.arange(18).reshape(3, SNAKES) % 4
    played.teams.orientation[:] = np.arange(15) % ORIENTATIONS
    played.opponent_id[:] = 0, 2, 2
    events.over[:] = False, True, True
    played.finish()
    red, blue = np.array([1, -2, 0]), np.array([1, 0, -3])
    np.testing.assert_array_equal(rows.rewards[0], [red, blue - 8, red + 8, red + 8, blue - 8])
    board_actions = played.board_actions.reshape(6, TEAM)[[0, 3, 4, 2, 5]]
    local = LOCAL_ACTIONS[played.teams.orientation.reshape(5, TEAM), board_actions]
    np.testing.assert_array_equal(rows.actions[0], local)
    assert rows.terminated[0].tolist() == [False, True, True, True, True]
    np.testing.assert_array_equal(results.returns[:, 0], [red, [0] * 3, [0] * 3])
    np.testing.assert_array_equal(results.returns[:, 1], [[0] * 3, blue - 8, red + 8])
    assert results.tally[:, 2].tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert results.tally.sum() == 2
    assert results.deaths.tolist() == [[1, 1]] * 3  # counted once, for the first team of the match
    assert results.lengths.tolist() == [[0, 0], [10, 12], [12, 10]]
