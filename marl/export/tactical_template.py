"""The encoders `tactical` and `tactical_board` of the submission: appended to submission_template.py. Needs only numpy.

The searches of arena/search.py and arena/dangers.py in plain integers, from the first ruled comment on. A set of cells
is an integer of 200 bits, bit c for cell c: faster than arrays for one match (three snakes: under 1 ms).
"""

import numpy as np

from marl.export.submission_template import (
    CELLS,
    COLUMNS,
    ENCODERS,
    STEPS,
    TEAM,
    beside,
    canonical,
    egocentric,
    to_local,
)  # fmt: skip

# --- searches behind each action: the encoders `tactical` and `tactical_board` ----------------------------------------

ROOM_MOVES, CONTEST_MOVES, WORTH_UNIT, T_NUMBERS = 14, 10, 10, 8  # see arena/encoders/tactical.py
DEPTH, MOST_STEPS = 8, 256  # of a search for a dead end; see arena/dangers.py
WHOLE_BOARD = (1 << CELLS) - 1
COLUMN_0 = sum(1 << cell for cell in range(0, CELLS, COLUMNS))
NOT_COLUMN_0 = WHOLE_BOARD ^ COLUMN_0
NEIGHBOUR_CELLS = [[beside(cell, *step) for step in STEPS] for cell in range(CELLS)]
count = getattr(int, "bit_count", lambda cells: bin(cells).count("1"))  # Python before 3.10 has no bit_count


def tactical(match, snake):
    """`canonical`, and eight numbers for each action."""
    return with_action_numbers(match, snake, *canonical(match, snake))


def tactical_board(match, snake):
    """`egocentric`, and eight numbers for each action."""
    return with_action_numbers(match, snake, *egocentric(match, snake))


ENCODERS.update(tactical=tactical, tactical_board=tactical_board)


def with_action_numbers(match, snake, obs, orientation):
    """The observation with eight numbers for each action behind it, and its orientation."""
    numbers = np.array(action_numbers(match, snake, orientation), np.float32)
    return np.concatenate((obs, numbers)), orientation


class Surroundings:
    """What the searches of all snakes share on one turn."""

    def __init__(self, match):
        self.beans = set_of(match.beans)
        self.waits = [0] * CELLS  # turns until a cell is free
        self.owners = [None] * CELLS
        for snake, body in enumerate(match.bodies):
            for age, cell in enumerate(body):
                self.waits[cell], self.owners[cell] = len(body) - age, snake
        # free[k]: the cells that can be entered on the k-th move from now, if no snake eats or dies.
        self.free = [
            WHOLE_BOARD & ~set_of(cell for body in match.bodies for cell in body[: max(0, len(body) - move)])
            for move in range(ROOM_MOVES + 1)
        ]
        self.may_eat = [neighbours(set_of(body[:1])) & self.beans > 0 for body in match.bodies]


def action_numbers(match, snake, orientation):
    """Eight numbers for each action in local order; all 0 for the reversal and for an occupied cell."""
    if not hasattr(match, "surroundings"):
        match.surroundings = Surroundings(match)
    around = match.surroundings
    waits, head = around.waits, match.bodies[snake][0]
    team = snake - snake % TEAM
    heads = [body[:1] for body in match.bodies]
    mates = set_of(cell for other in range(team, team + TEAM) for cell in heads[other] if other != snake)
    foes = set_of(cell for other in range(TEAM - team, 2 * TEAM - team) for cell in heads[other])
    numbers = [0] * (T_NUMBERS * len(STEPS))
    for action, step in enumerate(STEPS):
        cell = NEIGHBOUR_CELLS[head][action]
        if action == match.directions[snake] ^ 1 or waits[cell] > 1:
            continue
        room, bean, last = explore(around, 1 << cell)
        own, lost, worth = contest(around, 1 << cell, mates, foes)
        owner = around.owners[cell]
        at = T_NUMBERS * STEPS.index(to_local(orientation, *step))
        numbers[at : at + T_NUMBERS] = (
            1,
            min(127, room),
            ROOM_MOVES + 1 - bean if bean else 0,
            min(127, own),
            min(127, lost),
            max(-127, min(127, worth // WORTH_UNIT)),
            owner is not None and owner != snake and around.may_eat[owner],
            # A shortest way of DEPTH moves is a way on.
            last < DEPTH and is_dead_end(waits, head, len(match.bodies[snake]), action),
        )
    return numbers


def set_of(cells):
    """The set of these cells."""
    found = 0
    for cell in cells:
        found |= 1 << cell
    return found


def neighbours(cells):
    """All cells next to a cell of the set, around the torus; bits beyond the board may be set, too."""
    sideways = cells << 1 & NOT_COLUMN_0 | cells >> 19 & COLUMN_0
    sideways |= (cells & NOT_COLUMN_0) >> 1 | (cells & COLUMN_0) << 19
    return sideways | cells << COLUMNS | cells >> COLUMNS | cells << CELLS - COLUMNS | cells >> CELLS - COLUMNS


def explore(around, front):
    """Cells that can be reached, the move that reaches the first bean (0: none), the last move to a new cell."""
    unseen = WHOLE_BOARD ^ front
    bean, last = int(front & around.beans > 0), 1
    for move in range(2, ROOM_MOVES + 1):
        front = neighbours(front) & around.free[move] & unseen
        if not front:
            break
        unseen ^= front
        last = move
        if not bean and front & around.beans:
            bean = move
    return CELLS - count(unseen), bean, last


def contest(around, own, mates, foes):
    """Cells that the snake reaches first, cells that its foes reach first, and the worth of the beans.

    All heads search at once. A cell that both sides reach on the same move belongs to nobody.
    """
    free, beans = around.free, around.beans
    open_ = WHOLE_BOARD
    own_cells = foe_cells = worth = 0
    for move in range(1, CONTEST_MOVES + 1):
        enterable = free[move] & open_
        if move > 1:
            own = neighbours(own) & enterable
            foes = neighbours(foes) & enterable
        else:  # the snake has entered its cell
            foes = neighbours(foes) & enterable & ~own
        mates = neighbours(mates) & enterable & ~own
        side = own | mates
        open_ &= ~(side | foes)
        nobody = side & foes
        if nobody:
            own, mates, foes = own & ~nobody, mates & ~nobody, foes & ~nobody
        own_cells += count(own)
        foe_cells += count(foes)
        if (side | foes) & beans:
            worth += 240 // (move + 1) * (2 * count(own & beans) + count(mates & beans) - count(foes & beans))
    return own_cells, foe_cells, worth


def is_dead_end(waits, head, length, action):
    """Whether a snake that plays this action cannot go on for DEPTH turns while the others stand still.

    waits [CELLS]: turns until a cell is free. Depth first; ends without a verdict after MOST_STEPS steps.
    """
    path, actions = [head], [action]  # cells from the head on; the action to try on each turn
    for _ in range(MOST_STEPS):
        turn, tried = len(path) - 1, actions[-1]
        if turn == 0 and tried != action:
            return True
        if tried > 3:
            path.pop()
            actions.pop()
            actions[-1] += 1
            continue
        cell = NEIGHBOUR_CELLS[path[-1]][tried]
        if waits[cell] > turn + 1 or cell in path[max(1, turn + 2 - length) :]:
            actions[-1] += 1
            continue
        if turn == DEPTH - 1:
            return False
        path.append(cell)
        actions.append(0)
    return False
