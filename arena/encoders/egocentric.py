"""The encoder `egocentric`: the board around the own head in the canonical orientation, and the vector of `canonical`.

The window of 13 x 13 cells has the own head in its middle. It is turned and mirrored like `canonical` (orientation.py):
up to eight cases become one that has to be learned. It shows the torus: where it is wider than the board, cells appear
twice. What is further away is in the vector.
"""

import numpy as np

from arena.encoders.distances import measure
from arena.encoders.encoder import WAIT_MAX, Encoder
from arena.encoders.features import CANONICAL, F_DIRECTION, F_ORIENTATION, F_WIDTH, canonical_orientation, vector_words
from arena.encoders.orientation import to_local
from arena.encoders.packed_bytes import byte_at
from arena.encoders.planes import P_BEANS, P_FOE_HEADS, P_FOES, P_MATE_HEADS, P_MATES, P_OWN, PLANES, last_on_board
from arena.jit import njit
from arena.rules import BEAN_COUNT, BEANS, CELLS, COLUMNS, HEAD, LENGTH, LINK, ROWS, SNAKES, TEAM

REACH = 6  # cells that the window shows each way
SIDE = 2 * REACH + 1
WINDOW = SIDE * SIDE
E_VECTOR = PLANES * WINDOW + 2  # the vector starts with a whole word
E_WIDTH = E_VECTOR + F_WIDTH


@njit
def from_head(position, head, size):
    """The way from the head on a ring, the shorter way round."""
    way = position - head
    way -= size if way >= size // 2 else 0
    return way + (size if way < -(size // 2) else 0)


@njit
def show(out, plane, rows, columns, orientation, value):
    """Write a value at a place rows and columns away from the head, if the window shows it."""
    ahead, aside = to_local(orientation, rows, columns)
    if abs(ahead) <= REACH and abs(aside) <= REACH:
        out[plane * WINDOW + (ahead + REACH) * SIDE + aside + REACH] = value


@njit
def show_cell(out, plane, cell, head, orientation, value):
    """Write a value at a cell of the board, and again where the window shows this cell a second time."""
    rows = from_head(cell // COLUMNS, head // COLUMNS, ROWS)
    columns = from_head(cell % COLUMNS, head % COLUMNS, COLUMNS)
    show(out, plane, rows, columns, orientation, value)
    if rows >= ROWS - REACH:
        show(out, plane, rows - ROWS, columns, orientation, value)
    if rows <= REACH - ROWS:
        show(out, plane, rows + ROWS, columns, orientation, value)


@njit
def write_vector(match, snake, common, orientation, out, start):
    """Write the vector of `canonical` from `start` on, byte by byte."""
    words = vector_words(match, snake, common, orientation)
    for i in range(F_WIDTH):
        # Signed, as plain Python must write it; compiled code is the same with and without.
        out[start + i] = (byte_at(words[i // 8], i % 8) ^ 128) - 128


@njit
def write_window_and_vector(match, snake, common, orientation, out):
    """Write all that `egocentric` shows; out is a row of zeros."""
    head = int(match[HEAD + snake])
    for other in range(SNAKES):
        plane = P_OWN // CELLS
        if other // TEAM != snake // TEAM:
            plane = P_FOES // CELLS
        elif other != snake:
            plane = P_MATES // CELLS
        length = int(match[LENGTH + other])
        cell, first = last_on_board(match, other)
        for wait in range(first, length + 1):
            show_cell(out, plane, cell, head, orientation, min(WAIT_MAX, wait))
            cell = int(match[LINK + cell])
        if other != snake and length > 0:
            heads = (P_MATE_HEADS if plane == P_MATES // CELLS else P_FOE_HEADS) // CELLS
            show_cell(out, heads, int(match[HEAD + other]), head, orientation, 1)
    for i in range(int(match[BEAN_COUNT])):
        show_cell(out, P_BEANS // CELLS, int(match[BEANS + i]), head, orientation, 1)
    write_vector(match, snake, common, orientation, out, E_VECTOR)


@njit
def encode_egocentric(match, snake, common, out):
    """Write the window and the vector of one snake; out is a row of zeros."""
    write_window_and_vector(match, snake, common, canonical_orientation(match, snake, common), out)


def _bounds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest and highest values, and scale."""
    planes = np.ones((PLANES, WINDOW), np.int8)
    planes[: P_MATE_HEADS // CELLS] = WAIT_MAX
    scale = np.ones(E_VECTOR, np.float32)
    scale[: planes.size] /= planes.reshape(-1)
    low = np.zeros(E_VECTOR, np.int8)
    high = np.concatenate((planes.reshape(-1), low[planes.size :]))
    return (
        np.concatenate((low, CANONICAL.low)),
        np.concatenate((high, CANONICAL.high)),
        np.concatenate((scale, CANONICAL.scale)),
    )


EGOCENTRIC = Encoder(
    "egocentric", 1, np.int8, *_bounds(), encode_egocentric, E_VECTOR + F_DIRECTION, measure, sparse=True,
    orientation_at=E_VECTOR + F_ORIENTATION,
)  # fmt: skip
