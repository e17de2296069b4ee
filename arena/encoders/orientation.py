"""Frames: how a snake holds the board when it looks at it.

The game does not care where up is, and a mirror changes nothing either. So a snake can hold the board turned until it
looks up, and mirrored until its nearest bean is not on the left: up to eight cases become one that has to be learned.
A frame is a number from 0 to 7: the direction that becomes up, and 4 more where left and right are swapped afterwards.
Frame 0 is the board as it is. (The torus is not square: ahead it has 10 cells or 20.)
"""

from itertools import product

import numpy as np

from arena.jit import njit
from arena.rules import DOWN, LEFT, RIGHT, UP

FRAMES = 8
MIRRORED = 4
STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}


def _seen(frame, rows, columns):
    """How many rows and columns away something is, as seen in a frame."""
    ahead, aside = (columns, -rows) if frame & 2 else (rows, columns)
    sign = 1 - 2 * (frame & 1)
    return sign * ahead, sign * aside * (1 - 2 * (frame >> 2))


seen = njit(_seen)


@njit
def unseen(frame, rows, columns):
    """The other way round: where on the board something is that is seen so many rows and columns away in a frame."""
    sign = 1 - 2 * (frame & 1)
    ahead, aside = sign * rows, sign * columns * (1 - 2 * (frame >> 2))
    return (-aside, ahead) if frame & 2 else (ahead, aside)


def _tables() -> tuple[np.ndarray, np.ndarray]:
    forth = np.zeros((FRAMES, 4), np.int64)
    for frame, (move, step) in product(range(FRAMES), STEPS.items()):
        forth[frame, move] = list(STEPS.values()).index(_seen(frame, *step))
    return forth, forth.argsort(1)


# By frame and move: what a move on the board is in the frame, and what a move in the frame is on the board.
FORTH, BACK = _tables()


def _packed(table: np.ndarray) -> int:
    """Two bits for each frame and move, in one signed integer: a GPU has no fast place for small tables."""
    number = sum(int(move) << 2 * i for i, move in enumerate(table.flat))
    return number - (1 << 64) if number >> 63 else number


_FORTH, _BACK = _packed(FORTH), _packed(BACK)


@njit
def forth(frame, move):
    """A move on the board as a move in the frame."""
    return _FORTH >> 8 * frame + 2 * move & 3


@njit
def back(frame, move):
    """A move in the frame as a move on the board."""
    return _BACK >> 8 * frame + 2 * move & 3
