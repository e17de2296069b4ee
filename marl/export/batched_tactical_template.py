"""The encoders `tactical` and `tactical_board` of the planning submission, for N matches at once. Needs only numpy.

Appended after simulation_template.py, from the first ruled comment on. The searches of all lanes go on together; a lane
is one of the three legal actions of one snake of one match.
"""

import numpy as np

from marl.export.simulation_template import (
    BATCHED,
    BEAN,
    LOCAL_ACTIONS,
    MATES,
    NEIGHBOURS,
    RIVALS,
    SNAKE,
    batched_canonical,
    batched_egocentric,
    waits,
)  # fmt: skip
from marl.export.submission_template import CELLS, COLUMNS, ROWS, SNAKES
from marl.export.tactical_template import (
    CONTEST_MOVES,
    DEPTH,
    ROOM_MOVES,
    T_NUMBERS,
    WORTH_UNIT,
    is_dead_end,
)  # fmt: skip

# --- searches behind each action of a seat: sets of cells are ten words, one for each row of the board -------------

WORD = 32  # bits of a word; column c is bit c, and bits above COLUMNS mean nothing until a set is masked
LEGAL = np.array([[action for action in range(4) if action != back] for back in (1, 0, 3, 2)])  # by direction
LANES = LEGAL.shape[1]  # of a seat
# BESIDE[cell]: the set of its four neighbours.
BESIDE = np.zeros((CELLS, ROWS), np.uint32)
for _cells in NEIGHBOURS.T:
    BESIDE[np.arange(CELLS), _cells // COLUMNS] |= np.uint32(1) << (_cells % COLUMNS).astype(np.uint32)
BEAN_WORTH = np.array([240 // (move + 1) for move in range(1, CONTEST_MOVES + 1)])
SMALL_COUNTS = np.array([bin(number).count("1") for number in range(1 << 10)], np.uint8)


def batched_tactical(sims, seen=SNAKE):
    """`tactical` of these seats [N * S, 112], and orientations [N, S]."""
    obs, orientation = batched_canonical(sims, seen)
    return np.concatenate((obs, batched_action_numbers(sims, seen, orientation)), 1), orientation


def batched_tactical_board(sims, seen=SNAKE):
    """`tactical_board` of these seats [N * S, 1128], and orientations [N, S]."""
    obs, orientation = batched_egocentric(sims, seen, 4 * T_NUMBERS)
    obs[:, -4 * T_NUMBERS :] = batched_action_numbers(sims, seen, orientation)
    return obs, orientation


BATCHED.update(tactical=batched_tactical, tactical_board=batched_tactical_board)


def bits_in(words):
    """The number of set bits in each word of COLUMNS bits. numpy before version 2 has no bitwise_count."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    return SMALL_COUNTS[words & 1023] + SMALL_COUNTS[words >> 10]


def packed_rows(cells):
    """Sets [..., 10, N] of boards of truth values [..., N, 200]."""
    # The highest bit first: numpy before 1.17 knows no other order.
    wide = np.zeros((*cells.shape[:-1], ROWS, WORD), bool)
    wide[..., -COLUMNS:] = cells.reshape(*cells.shape[:-1], ROWS, COLUMNS)[..., ::-1]
    words = np.packbits(wide, -1).view(">u4")[..., 0]
    return np.ascontiguousarray(np.swapaxes(words, -1, -2), np.uint32)


def spread(fronts, out, scratch):
    """Write the neighbours of sets [K, 12, ...] into out [K, 10, ...]: rows 0 and 11 repeat rows 10 and 1."""
    fronts[:, 0], fronts[:, -1] = fronts[:, -2], fronts[:, 1]
    rows = fronts[:, 1:-1]
    np.bitwise_or(fronts[:, :-2], fronts[:, 2:], out)
    for shift, by in ((np.left_shift, 1), (np.right_shift, 1), (np.left_shift, 19), (np.right_shift, 19)):
        shift(rows, np.uint32(by), scratch)
        np.bitwise_or(out, scratch, out)


def batched_action_numbers(sims, seen, orientation):
    """Eight numbers for each local action of these seats [N * S, 32]."""
    n, seats = orientation.shape
    left = waits(sims, ROOM_MOVES + 1)
    actions = LEGAL[sims.direction[:, seen]]  # [n, seat, 3]
    first = NEIGHBOURS[sims.head[:, seen, None], actions]
    here = sims.rows[..., None]
    is_open = left[here, first] <= 1
    beans = packed_rows(sims.board == BEAN)[:, None]  # [10, 1, n]
    room, bean, own, foes, worth, shut_in = search(sims, seen, left, first, beans)

    owner = sims.board[here, first] - 1
    on_other = (owner >= 0) & (owner < SNAKES) & (owner != seen[:, None])
    may_eat = (sims.board[here, NEIGHBOURS[sims.head]] == BEAN).any(-1)
    stays = on_other & may_eat[here, owner % SNAKES]
    found = np.zeros((n, seats, LANES, T_NUMBERS), np.float32)
    found[..., 0] = 1
    for at, numbers in enumerate((room, bean, own, foes, worth), 1):
        found[..., at] = numbers.reshape(seats, LANES, n).transpose(2, 0, 1)
    found[..., 6] = stays
    cells = {}
    shut_in = shut_in.reshape(seats, LANES, n).transpose(2, 0, 1) & is_open
    for match, seat, lane in np.argwhere(shut_in).tolist():
        if match not in cells:
            cells[match] = left[match].tolist()
        head, length = int(sims.head[match, seen[seat]]), int(sims.length[match, seen[seat]])
        found[match, seat, lane, 7] = is_dead_end(cells[match], head, length, int(actions[match, seat, lane]))
    found *= is_open[..., None]
    numbers = np.zeros((n, seats, 4, T_NUMBERS), np.float32)
    numbers[here, np.arange(seats)[:, None], LOCAL_ACTIONS[orientation[..., None], actions]] = found
    return numbers.reshape(n * seats, -1)


def search(sims, seen, left, first, beans):
    """`explore` and `contest` of all lanes [3 S, N]: room, bean, own, foes, worth; and where no way has DEPTH moves.

    Four sets of each lane advance together: all cells reached; those that the snake, its mates or its foes reach first.
    """
    n = len(sims.turn)
    moves = np.arange(1, ROOM_MOVES + 1, dtype=left.dtype)
    free = packed_rows(left <= moves[:, None, None])[:, :, None]  # [14, 10, 1, n]
    lanes = (len(seen) * LANES, n)
    fronts = np.zeros((4, ROWS + 2, *lanes), np.uint32)
    at = first.reshape(n, -1).T
    fronts[0, 1 + at // COLUMNS, np.arange(len(at))[:, None], np.arange(n)] = 1 << at % COLUMNS
    rows = fronts[:, 1:-1]
    own = rows[1] = rows[0]
    near = (BESIDE[sims.head] * (sims.length > 0)[..., None].astype(np.uint32)).transpose(2, 1, 0) & free[0]
    sides = np.stack([np.bitwise_or.reduce(near[:, others[seen]], 2) for others in (MATES, RIVALS)])
    rows[2:] = np.repeat(sides, LANES, 2) & ~own  # from [2, 10, S, n]
    mates, foes = rows[2:]

    unseen = np.empty((2, ROWS, *lanes), np.uint32)  # by the search for room; by both sides
    unseen[0] = ~own
    unseen[1] = ~(own | mates | foes)
    rows[2:] &= ~(mates & foes)
    claimed = rows[1::2].copy()  # all cells that the snake and its foes reach first
    reached_beans = np.zeros((ROOM_MOVES, *lanes), bool)
    bean_counts = np.zeros((CONTEST_MOVES, 3, *lanes), np.uint8)
    new, scratch = np.empty((2, 4, ROWS, *lanes), np.uint32)
    shut_in = np.zeros(lanes, bool)
    for move in range(1, ROOM_MOVES + 1):
        if move == CONTEST_MOVES + 1:
            fronts, new, scratch, unseen = fronts[:1].copy(), new[:1], scratch[:1], unseen[:1]
            rows = fronts[:, 1:-1]
        if move > 1:
            spread(fronts, new, scratch)
            enterable = unseen & free[move - 1]
            np.bitwise_and(new[0], enterable[0], rows[0])
            unseen[0] ^= rows[0]
            if move <= CONTEST_MOVES:
                np.bitwise_and(new[1:], enterable[1], rows[1:])
                own, mates, foes = rows[1:]
                side = own | mates
                mates &= ~own
                nobody = side & foes
                side |= foes
                unseen[1] ^= side
                rows[1:] &= ~nobody
                claimed |= rows[1::2]
        on_beans = np.bitwise_and(rows, beans, scratch)
        reached_beans[move - 1] = np.bitwise_or.reduce(on_beans[0], 0) != 0
        if move <= CONTEST_MOVES:
            bean_counts[move - 1] = bits_in(on_beans[1:]).sum(1, dtype=np.uint8)
        if move == DEPTH:
            shut_in = ~rows[0].any(0)
    found = reached_beans.any(0)
    bean = np.where(found, ROOM_MOVES - reached_beans.argmax(0), 0)
    own_beans, mates_beans, foes_beans = bean_counts.swapaxes(0, 1).astype(np.intp)
    worth = np.tensordot(BEAN_WORTH, 2 * own_beans + mates_beans - foes_beans, 1)
    room = bits_in(~unseen[0]).sum(0, dtype=np.uint8)
    own_cells, foe_cells = bits_in(claimed).sum(1, dtype=np.uint8)
    return (
        np.minimum(127, room),
        bean,
        np.minimum(127, own_cells),
        np.minimum(127, foe_cells),
        np.clip(worth // WORTH_UNIT, -127, 127),
        shut_in,
    )
