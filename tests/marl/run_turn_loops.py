"""Runs the loops of marl/turn_loops.py on stored arrays in another process: with Numba off, or as simulated kernels.

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

# Loop -> names of its arrays in order, those that it writes in capitals.
LOOPS = {
    "draw_all_moves": ("state", "keys", "seats", "logits", "epsilon", "DRAWN"),
    "meet_all": ("state", "keys", "edges", "WHICH"),
    "finish_all": (
        *("state", "played", "ate", "died", "gain", "over", "side", "met", "weights", "counts"),
        *("MOVES", "REWARDS", "ENDED", "TOTALS", "TALLY"),
    ),
    "sample_all": (
        *(KEY, "held_counts", "held_rewards", "held_over", "held_moves", STEPS, GAMMA),
        *("HERE", "THERE", "RETURNS", "DISCOUNTS", "SHARES"),
    ),
}
# Loop -> the array with one row for each of its items.
ITEMS = {"draw_all_moves": "seats", "meet_all": "keys", "finish_all": "keys", "sample_all": "HERE"}


def run_all(given: dict[str, np.ndarray], call: Callable[..., None]) -> dict[str, np.ndarray]:
    """What the loops write, each on its own copies; `call` gets a loop's name, its number of items, its arguments."""
    found = {}
    for loop, arguments in LOOPS.items():
        arrays = {name: given[name].copy() for name in arguments if isinstance(name, str)}
        if "state" in arrays:
            arrays["state"] = given["state"].copy(order="K")
        call(loop, len(given[ITEMS[loop]]), *(arrays[a] if isinstance(a, str) else a for a in arguments))
        found |= {name: array for name, array in arrays.items() if name.isupper()}
    return found


def on_cpu(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    from marl import turn_loops

    return run_all(given, lambda loop, items, *arguments: getattr(turn_loops, loop)(*arguments))


def in_simulator(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kernels on numpy arrays, in blocks of four threads so that the last block need not be full."""
    import numba.cuda

    numba.cuda.as_cuda_array = None  # the simulator has none; the arena may name it at import
    from marl import turn_kernels

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
