"""Decides on stored positions: run in another process, with Numba off or with its CUDA simulator.

usage: run_opponents.py both|simulator scripted|probes POSITIONS.npz MOVES.npz
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NOISES = (0.0, 0.3)
FEW = slice(None, None, -5)  # positions for the simulator, which is slow: the last one is among them


def table_of(name: str) -> dict[str, Callable[..., int]]:
    from opponents.probes import PROBES
    from opponents.scripted import SCRIPTED

    return {"scripted": SCRIPTED, "probes": PROBES}[name]


def on_cpu(state: np.ndarray, keys: np.ndarray, table: str = "scripted") -> dict[str, np.ndarray]:
    """Moves [B, 6] of every opponent, by its name and noise, the usual way."""
    import torch

    from arena import BatchArena
    from opponents.loops import act

    arena = BatchArena(len(state))
    arena.state.copy_(torch.from_numpy(state))
    arena.keys.copy_(torch.from_numpy(keys))
    seats = torch.arange(len(state) * 6, dtype=torch.int32)
    found = {}
    for name, function in table_of(table).items():
        for noise in NOISES:
            moves = torch.full((len(state), 6), -1, dtype=torch.int8)
            act(function, arena, seats, moves, noise)
            found[f"{name}:{noise}"] = moves.numpy()
    return found


def in_simulator(state: np.ndarray, keys: np.ndarray, table: str) -> dict[str, np.ndarray]:
    """The kernels on numpy arrays, in blocks of four threads so that the last block need not be full."""
    import numba.cuda

    numba.cuda.as_cuda_array = None  # the simulator has none; the arena may name it at import
    from arena.rng import DRAW_RANGE
    from opponents.loops import _cuda_kernel

    state = np.ascontiguousarray(state.T).T  # match-last memory, as on a GPU
    seats = np.arange(len(state) * 6, dtype=np.int32)
    which = np.zeros(len(state), np.uint8)
    found = {}
    for name, function in table_of(table).items():
        for noise in NOISES:
            moves = np.full((len(state), 6), -1, np.int8)
            kernel = _cuda_kernel(function)
            kernel[(len(seats) + 3) // 4, 4](state, keys, seats, which, 0, int(noise * DRAW_RANGE), moves)
            found[f"{name}:{noise}"] = moves
    return found


def both(state: np.ndarray, keys: np.ndarray, table: str) -> dict[str, np.ndarray]:
    """In one process, which takes long to load torch: by the kernels for a few positions, and the usual way for all."""
    by_kernels = in_simulator(state[FEW], keys[FEW].copy(), table)
    return on_cpu(state, keys, table) | {f"kernel of {name}": moves for name, moves in by_kernels.items()}


def elsewhere(
    where: str, state: np.ndarray, keys: np.ndarray, folder: Path, table: str = "scripted", **environment: str
) -> dict:
    """The moves that this file finds in a separate process."""
    given, answer = folder / "positions.npz", folder / "moves.npz"
    np.savez(given, state=state, keys=keys)
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, str(Path(__file__)), where, table, str(given), str(answer)]
    done = subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(answer) as moves:
        return dict(moves)


if __name__ == "__main__":
    decide = {"both": both, "simulator": in_simulator}[sys.argv[1]]
    with np.load(sys.argv[3]) as positions:
        np.savez(sys.argv[4], **decide(positions["state"], positions["keys"], sys.argv[2]))
