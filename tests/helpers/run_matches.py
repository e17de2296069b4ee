"""Plays a few matches and prints a digest per turn: run in another process, with Numba off or with its CUDA simulator.

usage: run_matches.py [cpu|simulator MATCHES TURNS SEED]... one digest a line: state, events and all encoders
       run_matches.py draws                                 random numbers, one JSON list
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from helpers.movers import semi_greedy_moves

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("features", "canonical", "planes")  # encoders, in the order of a digest
# In plain Python 3 to 12 ms a match, or with many threads: every 10th turn.
SLOW, EVERY = ("egocentric", "tactical", "tactical_board"), 10


def digest(*arrays: np.ndarray) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def shown(turn: int) -> tuple[str, ...]:
    """The encoders of a turn's digest."""
    return SHOWN + SLOW if turn % EVERY == 0 else SHOWN


def on_cpu(matches: int, turns: int, seed: int) -> Iterator[str]:
    import torch  # takes 2 s, and `draws` needs none

    from arena import BatchArena

    arena = BatchArena(matches, seed=seed)
    arena.start()
    generator = np.random.default_rng(seed)
    for turn in range(turns):
        events = arena.play_turn(torch.from_numpy(semi_greedy_moves(arena.state.numpy(), generator)))
        seen = [arena.observe(name).numpy() for name in shown(turn)]
        yield digest(arena.state.numpy(), *(t.numpy() for t in events), *seen)


def in_simulator(matches: int, turns: int, seed: int) -> Iterator[str]:
    """The real kernels on numpy arrays, in blocks of four threads so that the last block is not full."""
    from arena.backends import cuda
    from arena.backends.encode import cell_kernels, encode_kernel, part_kernels
    from arena.encoders import encoder_named
    from arena.rules import CELLS, MATCH_BYTES, OVER, SNAKES

    def launch(kernel, threads: int, *arguments, each: int = 4) -> None:
        kernel[(threads + each - 1) // each, each](*arguments)

    # Match-last memory, as on a GPU.
    state = np.zeros((MATCH_BYTES, matches), np.uint8).T
    state[:, OVER] = 1
    numbers = np.arange(matches, dtype=np.int64) - matches
    keys = np.zeros(matches, np.int64)
    ate, died = np.zeros((2, matches, SNAKES), bool)
    reward = np.zeros((matches, SNAKES), np.int16)
    over = np.zeros(matches, bool)
    faults = np.zeros(1, np.int32)
    cells = np.zeros((matches, CELLS), np.uint8)
    seats = np.arange(matches * SNAKES, dtype=np.int32)
    encoders = {name: encoder_named(name) for name in SHOWN + SLOW}
    rows = {name: np.zeros((len(seats), encoder.width), encoder.dtype) for name, encoder in encoders.items()}

    every, played = np.ones(matches, bool), 2
    launch(cuda.start_kernel, matches * cuda.WARP, state, keys, numbers, every, seed, matches, each=cuda.WARP)
    generator = np.random.default_rng(seed)
    for turn in range(turns):
        moves = semi_greedy_moves(state, generator).astype(np.int8)
        threads = -(-matches // played) * cuda.WARP
        launch(cuda.play_kernel, threads, state, keys, moves, ate, died, reward, over, faults, played)
        seen = [rows[name] for name in shown(turn)]
        for name, obs in zip(shown(turn), seen, strict=True):
            encoder = encoders[name]
            if encoder.cell_words is not None:
                of_cells, of_parts = cell_kernels(encoder)
                launch(of_cells, matches * CELLS // 8, state, cells.view(np.uint64))
                launch(of_parts, len(seats) * encoder.cell_words.parts, state, seats, cells, obs.view(np.uint64))
                continue
            if encoder.sparse:
                obs[:] = 0  # as CudaBackend.encode does
            if encoder.row_parts is not None:
                of_matches, of_parts = part_kernels(encoder)
                words = np.zeros((matches, encoder.row_parts.words), np.int64)
                launch(of_matches, matches, state, words)
                launch(of_parts, len(seats) * encoder.row_parts.parts, state, seats, words, obs)
                continue
            launch(encode_kernel(encoder), len(seats), state, seats, obs.view(np.uint64) if encoder.words else obs)
        yield digest(state, ate, died, reward, over, *seen)
    assert faults[0] == 0


def draws() -> list[int]:
    from arena.rng import draw, draw_below, match_key

    found = []
    for seed, number in ((0, 0), (1, 0), (0, 1), (7, 123_456_789), (2**63 - 1, 2**40), (2**32, 2**32)):
        key = match_key(seed, number)
        found.append(int(key))
        for turn in (0, 1, 200):
            for slot in (0, 5, 32, 64, 32 + (31 << 8), 1 << 20):
                found.append(int(draw(key, turn, slot)))
                found.extend(int(draw_below(key, turn, slot, bound)) for bound in (1, 3, 4, 200, 800))
    return found


def elsewhere(*arguments: object, **environment: str) -> str:
    """Standard output of this file run in a process of its own."""
    settings = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))} | environment
    command = [sys.executable, str(Path(__file__)), *map(str, arguments)]
    done = subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1] == "draws":
        print(json.dumps(draws()))
    else:
        for at in range(1, len(sys.argv), 4):
            play = {"cpu": on_cpu, "simulator": in_simulator}[sys.argv[at]]
            for line in play(*map(int, sys.argv[at + 1 : at + 4])):
                print(line)
