"""Runs the loops of turn_loops.py and ppo_loops.py on stored arrays elsewhere: with Numba off, or as simulated kernels.

usage: run_turn_loops.py cpu|simulator GIVEN.npz FOUND.npz
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
STEPS, GAMMA, KEY = 3, 0.5, 0x1234_5678_9ABC_DEF
DECAY, CLIP, VALUE_CLIP, VALUE_WEIGHT = 0.75, 0.25, 0.5, 2.0
MASKED, FREE = True, False

# Loop, the array with one row for each of its items, and its arguments: arrays by name, what it writes in capitals.
LOOPS = (
    ("draw_all_moves", "seats", ("state", "keys", "seats", "frames", "logits", "epsilon", MASKED, "DRAWN")),
    ("draw_all_moves", "seats", ("state", "keys", "seats", "frames", "logits", "epsilon", FREE, "DRAWN_FREELY")),
    ("meet_all", "keys", ("state", "keys", "edges", "fixed", "WHICH")),
    (
        *("finish_all", "slot"),
        (
            *("state", "played", "ate", "died", "gain", "over", "slot", "side", "frames", "met", "weights"),
            *("counts", "MOVES", "REWARDS", "ENDED", "TOTALS", "TALLY"),
        ),
    ),
    (
        *("finish_all", "slot"),
        (
            *("state", "played", "ate", "died", "gain", "over", "slot", "side", "frames", "met"),
            *(
                "zero_sum_weights",
                "counts",
                "ZERO_SUM_MOVES",
                "ZERO_SUM_REWARDS",
                "ZERO_SUM_ENDED",
                "ZERO_SUM_TOTALS",
                "ZERO_SUM_TALLY",
            ),
        ),
    ),
    (
        *("sample_all", "HERE"),
        (
            *(KEY, "held_counts", "held_rewards", "held_over", "held_moves", STEPS, GAMMA),
            *("HERE", "THERE", "RETURNS", "DISCOUNTS", "SHARES"),
        ),
    ),
    (
        *("note_all", "seats"),
        ("state", "seats", "frames", "answers", "played", "held_counts", MASKED, "BARRED", "LOG_CHANCES", "VALUES"),
    ),
    (
        *("note_all", "seats"),
        (
            *("state", "seats", "frames", "answers", "played", "held_counts", FREE),
            *("FREE_BARRED", "FREE_LOG_CHANCES", "FREE_VALUES"),
        ),
    ),
    (
        *("advantages_all", "seats"),
        ("held_rewards", "held_over", "held_values", GAMMA, DECAY, "ADVANTAGES", "GAE_RETURNS"),
    ),
    ("shuffle_all", "ORDER", (KEY, "held_counts", "ORDER")),
    (
        *("gradients_all", "NUMBERS"),
        (
            *("here", "answers_to", "held_moves", "held_barred", "held_log_chances", "held_values", "held_advantages"),
            *("held_returns", "moments", "spreads", CLIP, VALUE_CLIP, VALUE_WEIGHT, "GRADIENTS", "NUMBERS"),
        ),
    ),
)


def run_all(given: dict[str, np.ndarray], call: Callable[..., None]) -> dict[str, np.ndarray]:
    """What the loops write, each on its own copies; `call` gets a loop's name, its number of items, its arguments."""
    found = {}
    for loop, items, arguments in LOOPS:
        arrays = {name: given[name].copy() for name in arguments if isinstance(name, str)}
        if "state" in arrays:
            arrays["state"] = given["state"].copy(order="K")
        call(loop, len(given[items]), *(arrays[a] if isinstance(a, str) else a for a in arguments))
        found |= {name: array for name, array in arrays.items() if name.isupper()}
    return found


def on_cpu(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    from marl.rollout import ppo_loops, turn_loops

    def call(loop: str, items: int, *arguments) -> None:
        (getattr(turn_loops, loop, None) or getattr(ppo_loops, loop))(*arguments)

    return run_all(given, call)


def in_simulator(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kernels on numpy arrays, in blocks of four threads so that the last block need not be full."""
    import numba.cuda

    numba.cuda.as_cuda_array = None  # the simulator has none; the arena may name it at import
    from marl.rollout import turn_kernels

    def call(loop: str, items: int, *arguments) -> None:
        getattr(turn_kernels, loop)[(items + 3) // 4, 4](*arguments)

    match_last = np.ascontiguousarray(given["state"].T).T  # as on a GPU
    return run_all(given | {"state": match_last}, call)


def elsewhere(where: str, given: dict[str, np.ndarray], folder: Path, **environment: str) -> dict[str, np.ndarray]:
    """What this file finds when it is run in a process of its own."""
    before, after = folder / "given.npz", folder / "found.npz"
    np.savez(before, **given)
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, str(Path(__file__)), where, str(before), str(after)]
    done = subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(after) as found:
        return dict(found)


if __name__ == "__main__":
    with np.load(sys.argv[2]) as arrays:
        np.savez(sys.argv[3], **{"cpu": on_cpu, "simulator": in_simulator}[sys.argv[1]](dict(arrays)))
