"""Players for tests: numpy only, one seeded generator, so that every run of a test sees the same games."""

import numpy as np

from arena.rules import BEAN as BEAN_BYTE
from arena.rules import BEAN_COUNT, BEANS, BOARD, COLUMNS, DIRECTION, FREE, HEAD, ROWS, SNAKES

_STEPS = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])


def random_moves(state: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return generator.integers(0, 4, (len(state), SNAKES), dtype=np.int64)


def semi_greedy_moves(state: np.ndarray, generator: np.random.Generator, slips: float = 0.03) -> np.ndarray:
    """Towards the nearest bean, around bodies, never backwards; now and then any move. Snakes grow long this way."""
    batch = np.arange(len(state))[:, None]
    heads = state[:, HEAD : HEAD + SNAKES].astype(int)
    directions = state[:, DIRECTION : DIRECTION + SNAKES].astype(int)
    beans = state[:, BEANS : BEANS + 5].astype(int)
    absent = np.arange(5) >= state[:, BEAN_COUNT, None]
    cost = generator.random((len(state), SNAKES, 4)) * 0.5
    for move in range(4):
        row = (heads // COLUMNS + _STEPS[move, 0]) % ROWS
        column = (heads % COLUMNS + _STEPS[move, 1]) % COLUMNS
        there = state[batch, BOARD + row * COLUMNS + column]
        down = np.abs(row[..., None] - beans[:, None] // COLUMNS)
        across = np.abs(column[..., None] - beans[:, None] % COLUMNS)
        far = np.minimum(down, ROWS - down) + np.minimum(across, COLUMNS - across) + 50 * absent[:, None]
        cost[..., move] += far.min(axis=2)
        cost[..., move] += 100 * ((there != FREE) & (there != BEAN_BYTE))
        cost[..., move] += 200 * (directions == move ^ 1)
    moves = cost.argmin(axis=2)
    slip = generator.random(moves.shape) < slips
    return np.where(slip, generator.integers(0, 4, moves.shape), moves)
