"""All loops of rollouts and learners write the same in compiled code, in plain Python, as simulated kernels, on a GPU.

Random numbers follow from SEED, which every test prints.
"""

import numpy as np
import pytest
import torch
from helpers.run_kernels import CASES, WAYS, elsewhere, names_in, on_cpu, on_gpu

from arena import BatchArena
from arena.backends.loops import ItemLoop
from arena.encoders.orientation import ORIENTATIONS
from arena.rules import SNAKES, TEAM
from marl.fast import ppo_kernels
from marl.learners import replay_buffer, shuffle, target_noise
from marl.rollout import turn_kernels
from marl.rollout.turn_kernels import NONE

SEED = 20_240_611


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


def given(matches: int) -> dict[str, np.ndarray]:
    """Arrays for all loops. Rewards and weights are sums of powers of two, so that every way of adding is exact."""
    generator = np.random.default_rng(SEED)
    arena = BatchArena(matches, seed=SEED)
    arena.start()
    for _ in range(30):
        events = arena.play_turn(torch.from_numpy(generator.integers(0, 4, (matches, SNAKES))))
    ate, died, gained = (tensor.numpy().copy() for tensor in events[:3])
    arena.start(torch.arange(matches) % 3 == 0)  # so that some are about to begin
    seats = (np.arange(matches * TEAM) * 2).astype(np.int32)
    turns, held, rows, both = 7, 5, 21, (1, matches - 2)
    teams = matches + len(both)

    def normal(*shape: int) -> np.ndarray:
        return generator.normal(0, 1, shape).astype(np.float32)

    weights = [1, 0.25, 0.5, 0.125, 2, 0.5, 4]
    finished = {
        "ACTIONS": np.full((turns, teams, TEAM), -1, np.int8),
        "REWARDS": np.zeros((turns, teams, TEAM), np.float32),
        "TERMINATED": np.zeros((turns, teams), bool),
        "MATCH_RETURNS": generator.integers(-8, 8, (matches, 2, TEAM)).astype(np.float32),
        "TALLY": generator.integers(0, 8, (matches, 4, 3)),
        "DEATHS": generator.integers(0, 8, (matches, 2)),
        "LENGTHS": generator.integers(0, 8, (matches, 2)),
    }
    return {
        "state": arena.state.numpy(),
        "keys": arena.keys.numpy(),
        "seats": seats,
        "orientations": generator.integers(0, ORIENTATIONS, teams * TEAM).astype(np.int8),
        "outputs": generator.normal(0, 2, (len(seats), 5)).astype(np.float32),
        "epsilon": np.array([0.3], np.float32),
        **dict.fromkeys(("DRAWN", "DRAWN_FREELY", "LIKELIEST"), np.full((matches, SNAKES), -1, np.int8)),
        "mix_cdf": np.cumsum([0.2, 0.0, 0.3, 0.5]),
        "preset": np.where(np.arange(matches) % 2, 7, NONE).astype(np.int16),
        "OPPONENT_ID": np.full(matches, 9, np.uint8),
        "board_actions": generator.integers(0, 4, (matches, SNAKES)).astype(np.int8),
        "ate": ate,
        "died": died,
        "gained": gained,
        "over": generator.random(matches) < 0.5,
        "team_match": np.array([*range(matches), *both], np.int32),
        "team_side": np.array([*(b % 2 for b in range(matches)), *(1 - b % 2 for b in both)], np.uint8),
        "is_second": np.arange(teams) >= matches,
        "met": generator.integers(0, 4, matches).astype(np.uint8),
        "weights": np.array([*weights, 0], np.float32),
        "zero_sum_weights": np.array([*weights, 1], np.float32),
        "counts": np.array([turns + 2, 0]),
        **finished,
        **{f"ZERO_SUM_{name}": array for name, array in finished.items()},
        "held_counts": np.array([held + 20, 11]),
        "held_rewards": (generator.integers(-64, 64, (held, matches, TEAM)) / 16).astype(np.float32),
        "held_terminated": generator.random((held, matches)) < 0.2,
        "held_actions": generator.integers(0, 4, (held, matches, TEAM)).astype(np.int8),
        "IDX": np.zeros(rows, np.int64),
        "NEXT_IDX": np.zeros(rows, np.int64),
        "RETURNS": np.zeros((rows, TEAM), np.float32),
        "DISCOUNTS": np.zeros(rows, np.float32),
        "ONE_HOT": np.zeros((rows, TEAM, 4), np.float32),
        **dict.fromkeys(("MASKED", "FREE_MASKED"), np.full((turns, matches, TEAM), 9, np.int8)),
        **dict.fromkeys(("LOG_PROBS", "FREE_LOG_PROBS"), np.zeros((turns, matches, TEAM), np.float32)),
        **dict.fromkeys(("VALUES", "FREE_VALUES"), np.zeros((turns + 1, matches, TEAM), np.float32)),
        "held_values": normal(held + 1, matches, TEAM),
        "NOISE": np.zeros((rows, TEAM, 4), np.float32),
        "ORDER": np.full(36, -1),
        "minibatch_idx": generator.permutation(held * matches)[:rows],
        "minibatch_outputs": normal(rows, TEAM, 5),
        "held_masked": generator.integers(-1, 4, (held, matches, TEAM)).astype(np.int8),
        "held_log_probs": normal(held, matches, TEAM) / 4 - 1,
        "held_advantages": normal(held, matches, TEAM),
        "held_returns": normal(held, matches, TEAM),
        "regularisers": np.array([0.125, 0.0625], np.float32),
        "GRADIENTS": np.zeros((rows, TEAM, 5), np.float32),
        "STATS": np.zeros((rows * TEAM, ppo_kernels.STATS), np.float32),
    }


# Sums that are not exact: their last bits depend on the format in which a machine adds.
ROUNDED = {"ZERO_SUM_REWARDS", "ZERO_SUM_MATCH_RETURNS", "LOG_PROBS", "FREE_LOG_PROBS", "NOISE"}
ROUNDED |= {"GRADIENTS", "STATS"}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected) == {name for name in before if name.isupper()}
    for name, array in expected.items():
        assert (array != before[name]).any(), f"{name} was not written"
        tolerance = {"rtol": 1e-5, "atol": 1e-5} if name in ROUNDED else {"rtol": 0}
        np.testing.assert_allclose(found[name], array, **tolerance, err_msg=f"{name}, seed {SEED}")


def test_every_loop_is_run_and_every_array_is_used() -> None:
    modules = (turn_kernels, replay_buffer, shuffle, target_noise, ppo_kernels)
    loops = {value for module in modules for value in vars(module).values() if isinstance(value, ItemLoop)}
    assert {case.loop for case in CASES} == loops
    assert names_in(tuple(case.arguments for case in CASES)) | {case.items for case in CASES} == set(given(4))


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return given(11)


@pytest.fixture(scope="module")
def found(arrays, tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    return elsewhere(arrays, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("where", WAYS)
def test_every_loop_writes_the_same_elsewhere(where, arrays, found) -> None:
    assert_same(found[where], on_cpu(arrays), arrays)


@pytest.mark.needs_cuda
def test_a_gpu_writes_what_the_cpu_writes() -> None:
    arrays = given(300)
    assert_same(on_gpu(arrays), on_cpu(arrays), arrays)
