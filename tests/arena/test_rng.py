"""Counter-based random numbers: pure, unbiased, the same bits compiled and in plain Python."""

import json

import numpy as np
import pytest
from helpers.boards import assert_uniform
from helpers.run_matches import draws, elsewhere

from arena.jit import njit
from arena.rng import (
    RETRY,
    SLOT_BEAN,
    SLOT_POLICY,
    SLOT_REVERSAL,
    SLOT_START,
    UNBIAS,
    draw,
    draw_below,
    match_key,
    mix32,
)

SEED = 11


@njit
def fill_draws(keys, turn, slot, out):
    for i in range(len(keys)):
        out[i] = draw(keys[i], turn, slot)


@njit
def fill_draws_below(keys, turn, slot, bound, out):
    for i in range(len(keys)):
        out[i] = draw_below(keys[i], turn, slot, bound)


@njit
def fill_keys(seed, first, out):
    for i in range(len(out)):
        out[i] = match_key(seed, first + i)


def keys(count: int, seed: int = SEED) -> np.ndarray:
    out = np.zeros(count, np.int64)
    fill_keys(seed, 0, out)
    return out


def test_a_draw_depends_on_nothing_but_its_arguments() -> None:
    first = [draw(match_key(3, k), turn, slot) for k in range(5) for turn in (0, 9) for slot in (0, 33)]
    again = [draw(match_key(3, k), turn, slot) for k in range(5) for turn in (0, 9) for slot in (0, 33)]
    assert first == again


def test_draws_of_different_matches_turns_and_slots_differ() -> None:
    found = {draw(match_key(3, k), turn, slot) for k in range(10) for turn in range(10) for slot in range(10)}
    assert len(found) == 1000


def test_draws_are_32_bit_numbers() -> None:
    out = np.zeros(10_000, np.int64)
    fill_draws(keys(10_000), 3, 4, out)
    assert out.min() >= 0
    assert out.max() < 2**32


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 5, 7, 60, 200, 800])
def test_draws_below_a_bound_are_uniform(bound) -> None:
    out = np.zeros(100_000, np.int64)
    fill_draws_below(keys(len(out)), 17, SLOT_BEAN, bound, out)
    assert out.min() >= 0
    assert out.max() < bound
    if bound > 1:
        assert_uniform(np.bincount(out, minlength=bound), f"draws below {bound}, seed {SEED}")


def test_draws_below_a_huge_bound_are_redrawn_rather_than_biased() -> None:
    # With 3 * 2**30 a plain multiply-shift gives every third number twice the share of the others.
    out = np.zeros(60_000, np.int64)
    fill_draws_below(keys(len(out)), 17, SLOT_BEAN, 3 << 30, out)
    assert_uniform(np.bincount(out % 3, minlength=3), f"draws below 3 * 2**30, modulo 3, seed {SEED}")


@pytest.mark.parametrize("vary", ["turn", "slot"])
def test_draws_of_one_match_are_uniform_over_its(vary) -> None:
    key = match_key(SEED, 1)
    if vary == "turn":
        found = [draw_below(key, turn, SLOT_REVERSAL, 8) for turn in range(20_000)]
    else:
        found = [draw_below(key, 5, slot, 8) for slot in range(20_000)]
    assert_uniform(np.bincount(found, minlength=8), f"draws over {vary}, seed {SEED}")


def test_match_keys_are_distinct_over_seeds_and_numbers() -> None:
    grid = np.zeros((100, 2000), np.int64)
    for seed in range(50):
        fill_keys(seed, 0, grid[seed])
        fill_keys(seed << 32, 1 << 33, grid[50 + seed])
    # Seed 0 stands in both halves with different numbers.
    assert len(np.unique(grid)) == grid.size


def test_match_keys_fit_in_63_bits() -> None:
    assert all(0 <= match_key(seed, number) < 2**63 for seed in (0, 2**63 - 1) for number in (0, 2**62))


def test_seed_and_match_number_do_not_stand_for_each_other() -> None:
    assert match_key(5, 9) != match_key(9, 5)


@pytest.mark.parametrize(("vary", "bits"), [("match", 32), ("turn", 32), ("slot", 32)])
def test_neighbouring_streams_agree_in_half_of_their_bits(vary, bits) -> None:
    count = 20_000
    a, b = np.zeros((2, count), np.int64)
    some = keys(count + 1)
    fill_draws(some[:-1], 7, 3, a)
    if vary == "match":
        fill_draws(some[1:], 7, 3, b)
    else:
        fill_draws(some[:-1], 7 + (vary == "turn"), 3 + (vary == "slot"), b)
    different = ((a ^ b)[:, None] >> np.arange(bits)) & 1
    share = different.mean(axis=0)
    limit = 5.5 * 0.5 / count**0.5
    assert np.abs(share - 0.5).max() < limit, f"bit shares {share.round(3)}, seed {SEED}"


def test_mix32_is_a_bijection_on_a_sample() -> None:
    assert len({mix32(x) for x in range(50_000)}) == 50_000


def test_slots_of_different_purposes_never_meet() -> None:
    slots = [
        *(SLOT_REVERSAL + snake for snake in range(6)),
        *(SLOT_START + snake for snake in range(6)),
        *(SLOT_BEAN + bean for bean in range(5)),
        *(SLOT_POLICY + snake for snake in range(6)),
    ]
    assert len(set(slots)) == len(slots)
    assert max(slots) < RETRY
    assert RETRY * 33 < UNBIAS


def test_plain_python_draws_the_same_numbers_as_compiled_code() -> None:
    assert json.loads(elsewhere("draws", NUMBA_DISABLE_JIT="1")) == draws()
