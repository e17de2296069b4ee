"""Runs the loops of rollouts and learners on stored arrays in another process: with Numba off, and as simulated
kernels.

usage: run_kernels.py GIVEN.npz FOUND.npz
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arena.backends.loops import ItemLoop
from arena.backends.tensors import Events
from marl.fast import ppo_kernels
from marl.fast.ppo_kernels import Minibatch, Targets
from marl.learners import replay_buffer, shuffle, target_noise
from marl.learners.ppo_loss import Coefs
from marl.learners.replay_buffer import BatchRows
from marl.rollout import turn_kernels
from marl.rollout.turn_kernels import Matches, MatchSums, PolicyRows, Seats, Teams, TurnRows

ROOT = Path(__file__).resolve().parents[2]
KEY, N_STEP, GAMMA = 0x1234_5678_9ABC_DEF, 3, 0.5
STD, STD_CLIP = 0.5, 0.75
CLIP, VALUE_CLIP, VALUE_WEIGHT = 0.25, 0.5, 2.0
MASKED, FREE = True, False


class Case(NamedTuple):
    """A loop, the array with a row for each item, and the arguments by name; arrays in capitals are written."""

    loop: ItemLoop
    items: str
    arguments: tuple


MATCHES, EVENTS = Matches("state", "keys"), Events("ate", "died", "gained", "over")
SEATS, TEAMS = Seats("seats", "orientations", "outputs"), Teams("team_match", "team_side", "orientations", "is_second")
TURN = ("state", EVENTS, "board_actions", "met", TEAMS)
COEFS = Coefs("regularisers", CLIP, VALUE_CLIP, VALUE_WEIGHT)
TARGETS = Targets("held_actions", "held_masked", "held_log_probs", "held_values", "held_advantages", "held_returns")
SAMPLED = BatchRows("IDX", "NEXT_IDX", "RETURNS", "DISCOUNTS", "ONE_HOT")


def draw(masks_reversal: bool, drawn: str) -> Case:
    return Case(turn_kernels.draw_actions, "seats", (MATCHES, SEATS, "epsilon", masks_reversal, drawn))


def finish(weights: str, prefix: str = "") -> Case:
    rows = TurnRows("counts", prefix + "ACTIONS", prefix + "REWARDS", prefix + "TERMINATED")
    results = MatchSums(*(prefix + name for name in ("MATCH_RETURNS", "TALLY", "DEATHS", "LENGTHS")))
    return Case(turn_kernels.finish_turns, "team_match", (*TURN, weights, rows, results))


def record(masks_reversal: bool, prefix: str = "") -> Case:
    rows = PolicyRows("held_counts", prefix + "MASKED", prefix + "LOG_PROBS", prefix + "VALUES")
    return Case(turn_kernels.record_steps, "seats", ("state", SEATS, "board_actions", masks_reversal, rows))


CASES = (
    draw(MASKED, "DRAWN"),
    draw(FREE, "DRAWN_FREELY"),
    Case(turn_kernels.choose_likeliest_actions, "seats", (MATCHES, SEATS, "LIKELIEST")),
    Case(turn_kernels.assign_opponents, "keys", (MATCHES, "mix_cdf", "preset", "OPPONENT_ID")),
    finish("weights"),
    finish("zero_sum_weights", "ZERO_SUM_"),
    Case(
        replay_buffer.sample_transitions,
        "IDX",
        (KEY, TurnRows("held_counts", "held_actions", "held_rewards", "held_terminated"), N_STEP, GAMMA, SAMPLED),
    ),
    record(MASKED),
    record(FREE, "FREE_"),
    Case(target_noise.draw_noises, "NOISE", (KEY, "held_counts", STD, STD_CLIP, "NOISE")),
    Case(shuffle.shuffle_items, "ORDER", (KEY, "held_counts", "ORDER")),
    Case(
        ppo_kernels.loss_gradients,
        "STATS",
        (Minibatch("minibatch_idx", "minibatch_outputs", "GRADIENTS", "STATS"), TARGETS, COEFS),
    ),
)


def names_in(value: Any) -> set[str]:
    if isinstance(value, tuple):
        return set().union(*map(names_in, value))
    return {value} if isinstance(value, str) else set()


def filled_in(value: Any, arrays: dict[str, Any]) -> Any:
    """The value with arrays in place of their names; tuples stay what they are."""
    if isinstance(value, tuple):
        each = [filled_in(item, arrays) for item in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return arrays[value] if isinstance(value, str) else value


def run_all(
    given: dict[str, np.ndarray], call: Callable[[ItemLoop, int, tuple, dict[str, np.ndarray]], None]
) -> dict[str, np.ndarray]:
    """What the loops write, each on its own copies.

    `call` gets a loop, its number of items, its arguments with names in place of arrays, and the arrays by name.
    """
    found = {}
    for loop, items, arguments in CASES:
        arrays = {name: given[name].copy(order="K" if name == "state" else "C") for name in names_in(arguments)}
        call(loop, len(given[items]), arguments, arrays)
        found |= {name: array for name, array in arrays.items() if name.isupper()}
    return found


def on_cpu(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return run_all(
        given, lambda loop, items, arguments, arrays: loop.cpu_loop()(0, items, filled_in(arguments, arrays))
    )


def in_simulator(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kernels on numpy arrays, in blocks of four threads so that the last block need not be full."""

    def call(loop: ItemLoop, items: int, arguments: tuple, arrays: dict[str, np.ndarray]) -> None:
        loop.cuda_kernel()[(items + 3) // 4, 4](items, filled_in(arguments, arrays))

    match_last = np.ascontiguousarray(given["state"].T).T  # as on a GPU
    return run_all(given | {"state": match_last}, call)


def on_gpu(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kernels as training calls them: bound to tensors on the device."""
    import torch

    device = torch.device("cuda")

    def call(loop: ItemLoop, items: int, arguments: tuple, arrays: dict[str, np.ndarray]) -> None:
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        loop.bind(items, device, *filled_in(arguments, tensors))()
        for name, tensor in tensors.items():
            arrays[name][...] = tensor.cpu().numpy()

    return run_all(given, call)


def elsewhere(given: dict[str, np.ndarray], folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """What this file finds in a process of its own: in plain Python, and by the kernels in the simulator."""
    before, after = folder / "given.npz", folder / "found.npz"
    np.savez(before, **given)
    settings = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, str(Path(__file__)), str(before), str(after)]
    done = subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, np.ndarray]] = {where: {} for where in WAYS}
    with np.load(after) as arrays:
        for name, array in arrays.items():
            where, _, of = name.partition(":")
            found[where][of] = array
    return found


WAYS = {"plain Python": on_cpu, "kernels in the simulator": in_simulator}

if __name__ == "__main__":
    with np.load(sys.argv[1]) as arrays:
        given = dict(arrays)
    found = {f"{where}:{name}": array for where, run in WAYS.items() for name, array in run(given).items()}
    np.savez(sys.argv[2], **found)
