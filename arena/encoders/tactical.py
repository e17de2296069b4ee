"""The encoder `tactical`: `egocentric`, and what searches find behind each action.

A network of two layers cannot follow a corridor. For each action these numbers tell it how much room there is, which
cells and beans this snake reaches before the others, and whether the way ends within eight turns.
"""

import numpy as np

from arena.dangers import DEPTH, is_dead_end, tail_may_stay
from arena.encoders.distances import measure
from arena.encoders.egocentric import E_VECTOR, E_WIDTH, EGOCENTRIC, write_vector, write_window_and_vector
from arena.encoders.encoder import Encoder, RowParts
from arena.encoders.features import (
    CANONICAL,
    F_DIRECTION,
    F_ORIENTATION,
    F_WIDTH,
    canonical_orientation,
)
from arena.encoders.orientation import board_action
from arena.encoders.packed_bytes import byte_at
from arena.jit import njit
from arena.rules import ACTIONS, DOWN, HEAD, SNAKES, neighbour, turns_until_free
from arena.search import beans, contest, explore, waits_of

# Eight numbers for each action in local order; all 0 for the reversal and for a cell that is occupied on this turn.
T_OPEN = 0  # 1: the cell can be entered
T_ROOM = 1  # cells that can be reached in ROOM_MOVES moves
T_BEAN = 2  # ROOM_MOVES + 1 minus the moves to the first bean on the way; 0: none
T_OWN = 3  # cells that the snake reaches before all others in CONTEST_MOVES moves
T_FOES = 4  # cells that its foes reach first
T_BEANS = 5  # beans that its side reaches first, weighted by how soon, minus those of its foes
T_TAIL = 6  # 1: the cell is a tail that stays if its snake eats on this turn
T_DEAD_END = 7  # 1: no way on for eight turns, if the others stand still
T_NUMBERS = 8
ROOM_MOVES = 14
CONTEST_MOVES = 10
WORTH_UNIT = 10
ACTION_PARTS = ACTIONS - 1  # of a row on a GPU: one for each action but the reversal; the last part is the rest
# Words that a GPU keeps for each match. The first one holds the orientations of the snakes, a byte each.
S_BEANS = 1  # [4] a set
S_WAITS = 5  # [4 x 4] the sets of `waits`
SHARED_WORDS = 21


@njit
def measure_for_searches(match):
    """What all seats of a match share: distances, and what searches begin with."""
    return measure(match), (waits_of(match), beans(match))


@njit
def write_action(match, snake, local, orientation, searched, out, start):
    """Write the numbers of a local action into those from `start` on; it is not DOWN, the reversal."""
    waits, goals = searched
    action = board_action(orientation, local)
    cell = neighbour(int(match[HEAD + snake]), action)
    if turns_until_free(match, cell) > 1:
        return
    at = start + T_NUMBERS * local
    room, bean, last = explore(waits, cell, goals, ROOM_MOVES)
    own, foes, worth = contest(match, waits, snake, cell, goals, CONTEST_MOVES)
    # A shortest way of DEPTH moves is a way on, so that most searches for dead ends need not begin.
    dead_end = last < DEPTH and is_dead_end(match, snake, action)
    out[at + T_OPEN] = 1
    out[at + T_ROOM] = min(127, room)
    out[at + T_BEAN] = ROOM_MOVES + 1 - bean if bean > 0 else 0
    out[at + T_OWN] = min(127, own)
    out[at + T_FOES] = min(127, foes)
    out[at + T_BEANS] = max(-127, min(127, worth // WORTH_UNIT))
    out[at + T_TAIL] = int(tail_may_stay(match, snake, cell))
    out[at + T_DEAD_END] = int(dead_end)


@njit
def write_actions(match, snake, orientation, searched, out, start):
    """Write the numbers of each action from `start` on. searched: of measure_for_searches."""
    for local in range(ACTIONS):
        if local != DOWN:
            write_action(match, snake, local, orientation, searched, out, start)


@njit
def encode_tactical(match, snake, common, out):
    """Write the vector of `canonical`, and the numbers of each action; out is a row of zeros."""
    distances, searched = common
    orientation = canonical_orientation(match, snake, distances)
    write_vector(match, snake, distances, orientation, out, 0)
    write_actions(match, snake, orientation, searched, out, F_WIDTH)


@njit
def encode_tactical_board(match, snake, common, out):
    """Write the numbers of `egocentric`, and those of each action; out is a row of zeros."""
    distances, searched = common
    orientation = canonical_orientation(match, snake, distances)
    write_window_and_vector(match, snake, distances, orientation, out)
    write_actions(match, snake, orientation, searched, out, E_WIDTH)


@njit
def share_searches(match, words):
    """For a GPU: write what the parts of all rows of a match begin with."""
    distances, (waits, goals) = measure_for_searches(match)
    orientations = 0
    for snake in range(SNAKES):
        orientations |= canonical_orientation(match, snake, distances) << 8 * snake
    words[0] = orientations
    for word in range(len(goals)):
        words[S_BEANS + word] = goals[word]
        for bit in range(len(waits)):
            words[S_WAITS + 4 * bit + word] = waits[bit][word]


@njit
def shared_set(words, at):
    """A set of cells."""
    return int(words[at]), int(words[at + 1]), int(words[at + 2]), int(words[at + 3])


@njit
def write_shared_action(match, snake, words, part, out, start):
    """Write the numbers of one action, given these words."""
    local = part + int(part >= DOWN)  # all but the reversal
    first, second = shared_set(words, S_WAITS), shared_set(words, S_WAITS + 4)
    third, fourth = shared_set(words, S_WAITS + 8), shared_set(words, S_WAITS + 12)
    searched = (first, second, third, fourth), shared_set(words, S_BEANS)
    write_action(match, snake, local, shared_orientation(words, snake), searched, out, start)


@njit
def shared_orientation(words, snake):
    """The orientation of a snake's view."""
    return byte_at(int(words[0]), snake)


@njit
def write_tactical_part(match, snake, words, part, out):
    """A part of what encode_tactical writes: the numbers of one action, or all that is before them."""
    if part < ACTION_PARTS:
        write_shared_action(match, snake, words, part, out, F_WIDTH)
    else:
        write_vector(match, snake, measure(match), shared_orientation(words, snake), out, 0)


@njit
def write_tactical_board_part(match, snake, words, part, out):
    """A part of what encode_tactical_board writes, likewise."""
    if part < ACTION_PARTS:
        write_shared_action(match, snake, words, part, out, E_WIDTH)
    else:
        write_window_and_vector(match, snake, measure(match), shared_orientation(words, snake), out)


def _bounds(before: Encoder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest and highest values, and scale."""
    low, high = np.zeros((2, ACTIONS, T_NUMBERS), np.int8)
    scale = np.ones((ACTIONS, T_NUMBERS), np.float32)
    high[:] = 1
    for number, unit in ((T_ROOM, 50), (T_OWN, 25), (T_FOES, 50), (T_BEANS, 25)):
        high[:, number], scale[:, number] = 127, 1 / unit
    high[:, T_BEAN], scale[:, T_BEAN] = ROOM_MOVES, 1 / ROOM_MOVES
    low[:, T_BEANS] = -127
    return (
        np.concatenate((before.low, low.reshape(-1))),
        np.concatenate((before.high, high.reshape(-1))),
        np.concatenate((before.scale, scale.reshape(-1))),
    )


TACTICAL = Encoder(
    "tactical", 1, np.int8, *_bounds(CANONICAL), encode_tactical, F_DIRECTION, measure_for_searches,
    searches=True, sparse=True, orientation_at=F_ORIENTATION,
    row_parts=RowParts(share_searches, SHARED_WORDS, write_tactical_part, ACTION_PARTS + 1),
)  # fmt: skip
TACTICAL_BOARD = Encoder(
    "tactical_board", 1, np.int8, *_bounds(EGOCENTRIC), encode_tactical_board, E_VECTOR + F_DIRECTION,
    measure_for_searches, searches=True, sparse=True, orientation_at=E_VECTOR + F_ORIENTATION,
    row_parts=RowParts(share_searches, SHARED_WORDS, write_tactical_board_part, ACTION_PARTS + 1),
)  # fmt: skip
