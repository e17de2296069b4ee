"""Orientations: how the board is turned and mirrored before a snake looks at it.

The game has no preferred direction, and a mirror image plays alike. The canonical view turns the board until the snake
looks up and mirrors it until the nearest bean is not on the left: up to eight cases become one that has to be learned.
An orientation is a number from 0 to 7: the direction that becomes up, plus 4 if left and right are swapped afterwards.
Orientation 0 is the board as it is. (The torus is not square: ahead it has 10 cells or 20.)

"Local" vectors and actions are those of the turned board, "board" ones those of the game.
"""

from itertools import product

import numpy as np

from arena.jit import njit
from arena.rules import DOWN, LEFT, RIGHT, UP

ORIENTATIONS = 8
MIRRORED = 4
STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}


def _to_local(orientation, rows, columns):
    """A vector on the board, in rows and columns, as a local one."""
    ahead, aside = (columns, -rows) if orientation & 2 else (rows, columns)
    sign = 1 - 2 * (orientation & 1)
    return sign * ahead, sign * aside * (1 - 2 * (orientation >> 2))


to_local = njit(_to_local)


@njit
def to_board(orientation, rows, columns):
    """A local vector as one on the board."""
    sign = 1 - 2 * (orientation & 1)
    ahead, aside = sign * rows, sign * columns * (1 - 2 * (orientation >> 2))
    return (-aside, ahead) if orientation & 2 else (ahead, aside)


def _action_tables() -> tuple[np.ndarray, np.ndarray]:
    local = np.zeros((ORIENTATIONS, 4), np.int64)
    for orientation, (action, step) in product(range(ORIENTATIONS), STEPS.items()):
        local[orientation, action] = list(STEPS.values()).index(_to_local(orientation, *step))
    return local, local.argsort(1)


# By orientation and action: the local action of an action on the board, and the other way round.
LOCAL_ACTIONS, BOARD_ACTIONS = _action_tables()


def _packed(table: np.ndarray) -> int:
    """Two bits for each entry, in one signed integer: a GPU has no fast place for small tables."""
    number = sum(int(action) << 2 * i for i, action in enumerate(table.flat))
    return number - (1 << 64) if number >> 63 else number


_LOCAL, _BOARD = _packed(LOCAL_ACTIONS), _packed(BOARD_ACTIONS)


@njit
def local_action(orientation, action):
    """The local action of an action on the board."""
    return _LOCAL >> 8 * orientation + 2 * action & 3


@njit
def board_action(orientation, action):
    """The action on the board of a local action."""
    return _BOARD >> 8 * orientation + 2 * action & 3
