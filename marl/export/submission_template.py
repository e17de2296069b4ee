"""A trained team for the competition snakes_3v3: one file that needs only numpy.

my_controller converts the competition's dictionary into the same observation as in training, and takes the most
probable move that is no reversal. Two things are not in the dictionary and are derived from the turn before: the turn
number, and the stored direction of each snake (shown one turn late; that of a respawned snake ignores the torus).
"""

import base64
import sys

import numpy as np

ROWS, COLUMNS, CELLS = 10, 20, 200
SNAKES, TEAM, BEANS, TURNS, START_LENGTH = 6, 3, 5, 200, 3
UP, DOWN, LEFT, RIGHT = 0, 1, 2, 3  # the opposite of d is d ^ 1
NAMES = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
BEAN_KEY, FIRST_SNAKE_KEY = 1, 2
WAIT_MAX = 8  # turns until a cell is free, capped
LEAD_MAX = 15  # the largest distance on the torus

_match = None  # the match in progress, as far as it is known; None before the first call
_told: set = set()  # what has failed and was told


class Match:
    """The state of a match on one turn. A cell is row * 20 + column; bodies are lists of cells, head first."""

    def __init__(self, turn, bodies, directions, beans):
        self.turn, self.bodies, self.directions, self.beans = turn, bodies, directions, beans
        self.own_moves = {}  # our moves on this turn, by snake


def my_controller(observation, action_space, is_act_continuous=False):
    """The move of the observed snake as [[one-hot of 4]]. Never raises."""
    move = UP
    try:
        bodies = [cells(observation, FIRST_SNAKE_KEY + snake) for snake in range(SNAKES)]
        beans = cells(observation, BEAN_KEY)
        snake = range(SNAKES).index(int(observation["controlled_snake_index"]) - FIRST_SNAKE_KEY)
        move = evade(bodies, snake)
        starts = observation.get("last_direction", ()) is None
        update_match(bodies, beans, stale_directions(observation), starts)
        move = _match.own_moves[snake] = choose(_match, snake)
    except Exception as error:  # for every kind of observation a move, even a poor one, is better than a forfeit
        tell("the policy fails; a snake goes straight on or aside", error)
    return [[int(move == each) for each in range(4)]]


def tell(what, error):
    """One line on stderr, the first time that this fails."""
    if what not in _told:
        _told.add(what)
        try:
            why = " ".join(str(error).split())
            sys.stderr.write(f"submission: {what}: {type(error).__name__}: {why}\n")
            sys.stderr.flush()
        except Exception:  # closed, or none
            pass


# --- reading the dictionary -------------------------------------------------------------------------------------------


def cells(observation, key):
    """Beans or a body as a new list of cells (the game changes its own lists). Empty if they cannot be read."""
    try:
        places = observation[key] if key in observation else observation[str(key)]  # JSON has only texts as keys
        return [int(row) % ROWS * COLUMNS + int(column) % COLUMNS for row, column in places]
    except Exception:
        return []


def stale_directions(observation):
    """The directions before the last turn; None at the start of a match, or if they cannot be read."""
    names = observation.get("last_direction")
    if names is None or len(names) != SNAKES or any(name not in NAMES for name in names):
        return None
    return [NAMES.index(name) for name in names]


def update_match(bodies, beans, stale, starts):
    """Update _match to this turn."""
    global _match
    before = _match
    if before is not None and before.bodies == bodies and before.beans == beans:
        return  # already updated for another snake of our team
    goes_on = [False] * SNAKES
    if before is not None:
        goes_on = [has_moved(before, bodies, beans, snake) for snake in range(SNAKES)]
    if starts or (stale is None and not any(goes_on)):
        _match = Match(0, bodies, [around_torus(body) for body in bodies], beans)
    elif before is None:  # started in the middle of a match: an apparent reversal must be a respawn
        known = []
        for snake, body in enumerate(bodies):
            direction = around_torus(body)
            known.append(direction if direction != stale[snake] ^ 1 else as_respawned(body))
        _match = Match(1, bodies, known, beans)
    else:
        known = [around_torus(body) if goes_on[i] else as_respawned(body) for i, body in enumerate(bodies)]
        _match = Match(min(before.turn + 1, TURNS - 1), bodies, known, beans)


def has_moved(before, bodies, beans, snake):
    """Whether a body is the body of the turn before, moved by one cell; otherwise the snake has died and respawned.

    A respawned body can be exactly where the old body could have moved to. For our own snakes the chosen move decides;
    a foe is assumed to have moved (one body in ten thousand is ambiguous, for one turn only).
    """
    body, old = bodies[snake], before.bodies[snake]
    if not body or not old or len(body) != len(old) + (body[0] in before.beans) or body[1:] != old[: len(body) - 1]:
        return False
    direction = around_torus(body)
    as_chosen = before.own_moves.get(snake, direction) == direction
    if len(body) > START_LENGTH or direction == as_respawned(body) or as_chosen:
        return True
    others = {cell for i, other in enumerate(bodies) if i != snake for cell in other}
    return body != first_room(others.union(bean for bean in before.beans if bean in beans))


def first_room(taken):
    """The body of a respawned snake: the first three connected free cells, searched from the top left."""
    for start in range(CELLS):
        if start in taken:
            continue
        beyond = free_neighbours(start, taken)
        if len(beyond) == 1:
            beyond += [cell for cell in free_neighbours(beyond[0], taken) if cell != start]
        if len(beyond) < 2:
            continue
        first, second = beyond[:2]
        row, column = divmod(start, COLUMNS)
        corners = [(first // COLUMNS, second % COLUMNS), (second // COLUMNS, first % COLUMNS)]
        return [first, start, second] if (row, column) in corners else [start, first, second]
    return []


def free_neighbours(cell, taken):
    """The free neighbours of a cell, in the order of the game."""
    around = [beside(cell, *STEPS[direction]) for direction in (RIGHT, DOWN, UP, LEFT)]
    return [each for each in around if each not in taken]


def around_torus(body):
    """The direction from the neck to the head, the shorter way around the torus."""
    if len(body) < 2:
        return UP
    rows, columns = apart(body[1], body[0])
    if columns == 0:
        return DOWN if rows > 0 else UP
    return RIGHT if columns > 0 else LEFT


def as_respawned(body):
    """The direction that the game stores for a new body: by plain comparison, without the torus."""
    if len(body) < 2:
        return UP
    head, neck = body[0], body[1]
    if head // COLUMNS == neck // COLUMNS:
        return RIGHT if head > neck else LEFT
    return DOWN if head > neck else UP


def apart(start, end):
    """Rows and columns from one cell to another, the shorter way around the torus."""
    rows = (end // COLUMNS - start // COLUMNS + ROWS // 2) % ROWS - ROWS // 2
    columns = (end % COLUMNS - start % COLUMNS + COLUMNS // 2) % COLUMNS - COLUMNS // 2
    return rows, columns


def beside(cell, rows, columns):
    """The cell `rows` and `columns` away."""
    return (cell // COLUMNS + rows) % ROWS * COLUMNS + (cell + columns) % COLUMNS


# --- encoders: the observation of a snake as in training, and the orientation of its coordinates ----------------------

MIRRORED = 4  # added to an orientation whose left and right are swapped
BEAN_COLUMNS = 29  # index of the columns to the nearest bean; 0 without a bean
REACH = 6  # cells that `egocentric` shows each way
SIDE = 2 * REACH + 1
# The cells up to two moves away, as rows and columns.
AROUND = tuple((rows, columns) for rows in range(-2, 3) for columns in range(-2, 3) if 0 < abs(rows) + abs(columns) < 3)


def features(match, snake):
    """80 small numbers: the cells around the head, beans and other heads nearest first."""
    return vector(match, snake, 0), 0


def canonical(match, snake):
    """The same in the snake's own coordinates: it faces up, and its nearest bean is not on the left."""
    orientation = match.directions[snake]
    obs = vector(match, snake, orientation)
    if obs[BEAN_COLUMNS] >= 0:
        return obs, orientation
    return vector(match, snake, orientation + MIRRORED), orientation + MIRRORED


def to_local(orientation, rows, columns):
    """A step on the board (rows, columns) in the snake's coordinates.

    An orientation is the direction that becomes up, plus 4 if left and right are then swapped. 0 is the board as it is.
    """
    ahead, aside = (columns, -rows) if orientation & 2 else (rows, columns)
    sign = 1 - 2 * (orientation & 1)
    return sign * ahead, sign * aside * (1 - 2 * (orientation >> 2))


def vector(match, snake, orientation):
    """The 80 numbers of `features` and `canonical`, in the coordinates of an orientation."""
    bodies = match.bodies
    body = bodies[snake]
    head = body[0]
    heads = [each[0] if each else head for each in bodies]
    waits = [0] * CELLS
    for each in bodies:
        for age, cell in enumerate(each):
            waits[cell] = min(WAIT_MAX, len(each) - age)
    around = sorted(AROUND, key=lambda step: to_local(orientation, *step))  # row by row in local coordinates
    obs = [waits[beside(head, rows, columns)] for rows, columns in around]
    steps = [to_local(orientation, *step) for step in STEPS]
    obs += [int(steps[match.directions[snake]] == step) for step in STEPS]

    team = snake - snake % TEAM
    mates = [other for other in range(team, team + TEAM) if other != snake]
    foes = list(range(TEAM - team, TEAM - team + TEAM))
    for others in (foes, mates):
        near = [0, 0, 0, 0]
        for other in others:
            rows, columns = to_local(orientation, *apart(head, heads[other]))
            if abs(rows) + abs(columns) == 2:
                for move, nearer in enumerate((rows < 0, rows > 0, columns < 0, columns > 0)):
                    near[move] += nearer
        obs += near

    lengths = [len(each) for each in bodies]
    lead = sum(lengths[other] for other in (snake, mates[0], mates[1])) - sum(lengths[other] for other in foes)
    obs += [min(127, lengths[snake]), (TURNS - match.turn) >> 1, max(-127, min(127, lead)), 0]

    # In the order of the packed numbers of the training encoder: by distance, then by the bytes from last to first.
    entries = []
    for bean in match.beans[:BEANS]:
        distances = [abs(rows) + abs(columns) for rows, columns in (apart(each, bean) for each in heads)]
        own = distances[snake]
        lead_foe = min(distances[other] for other in foes) - own
        lead_mate = min(distances[other] for other in mates) - own
        entries.append((own, [*to_local(orientation, *apart(head, bean)), lead_foe, lead_mate]))
    entries += [(31, [0, 0, -LEAD_MAX, -LEAD_MAX])] * (BEANS - len(entries))
    obs += in_order(entries)
    for others in (mates, foes):
        entries = []
        for other in others:
            rows, columns = to_local(orientation, *apart(head, heads[other]))
            shown = [rows, columns, min(127, lengths[other]), *steps[match.directions[other]]]
            entries.append((abs(rows) + abs(columns), shown))
        obs += in_order(entries)
    return np.array([*obs, 0, 0, 0, 0, 0, orientation >> 1 & 1, orientation], np.float32)


def in_order(entries):
    """The numbers of all entries (distance, numbers), nearest first."""
    entries.sort(key=lambda each: (each[0], [number & 255 for number in reversed(each[1])]))
    return [number for _, numbers in entries for number in numbers]


def planes(match, snake):
    """The board around the own head: own body, mates', foes' (turns until free), heads, beans; and eight numbers."""
    obs = np.zeros(6 * CELLS + 8, np.float32)
    head = match.bodies[snake][0]
    down, right = ROWS // 2 - head // COLUMNS, COLUMNS // 2 - head % COLUMNS
    totals = [0, 0]
    for other, body in enumerate(match.bodies):
        foe = other // TEAM != snake // TEAM
        totals[foe] += len(body)
        plane = 0 if other == snake else 2 if foe else 1
        for age, cell in enumerate(body):
            obs[CELLS * plane + beside(cell, down, right)] = min(WAIT_MAX, len(body) - age)
        if body and other != snake:
            obs[CELLS * (plane + 2) + beside(body[0], down, right)] = 1
    for bean in match.beans:
        obs[CELLS * 5 + beside(bean, down, right)] = 1
    obs[CELLS * 6 + match.directions[snake]] = 1
    obs[CELLS * 6 + 4 :] = len(match.bodies[snake]), totals[0], totals[1], TURNS - match.turn
    return obs, 0


def egocentric(match, snake):
    """The cells around the head as in `planes`, in the coordinates of `canonical`; and the numbers of `canonical`."""
    obs, orientation = canonical(match, snake)
    window = np.zeros((6, SIDE, SIDE), np.float32)
    head = match.bodies[snake][0]

    def show(plane, cell, value):
        rows, columns = apart(head, cell)
        for again in (rows - ROWS, rows, rows + ROWS):  # the window is wider than the board
            ahead, aside = to_local(orientation, again, columns)
            if abs(ahead) <= REACH and abs(aside) <= REACH:
                window[plane, ahead + REACH, aside + REACH] = value

    for other, body in enumerate(match.bodies):
        plane = 0 if other == snake else 1 if other // TEAM == snake // TEAM else 2
        for age, cell in enumerate(body):
            show(plane, cell, min(WAIT_MAX, len(body) - age))
        if body and other != snake:
            show(plane + 2, body[0], 1)
    for bean in match.beans:
        show(5, bean, 1)
    return np.concatenate((window.reshape(-1), np.zeros(2, np.float32), obs)), orientation


# `turned` is the earlier name of `canonical`.
ENCODERS = {
    "features": features,
    "canonical": canonical,
    "turned": canonical,
    "planes": planes,
    "egocentric": egocentric,
}


# --- the choice of a move ---------------------------------------------------------------------------------------------


def choose(match, snake):
    """The most probable move, without the reversal, which the game would replace by a random move."""
    obs, orientation = ENCODE(match, snake)
    local = logits(obs)  # of the moves in local coordinates
    scores = np.array([local[STEPS.index(to_local(orientation, *step))] for step in STEPS])
    scores[match.directions[snake] ^ 1] = -np.inf
    return int(scores.argmax())


def logits(obs):
    """The network's logits of the four moves."""
    (weight, bias), rest = LAYERS[0], LAYERS[1:]
    used = np.flatnonzero(obs)  # most of the board is empty
    hidden = product(obs[used], weight[used]) + bias
    for weight, bias in rest:
        hidden = product(np.maximum(hidden, 0), weight) + bias
    return hidden


def product(vector, weight):
    """vector @ weight in one thread. The threads of `@` wait for each other on a busy machine (8 ms instead of 0.1)."""
    return np.einsum("i,ij->j", vector, weight)


def evade(bodies, snake):
    """A move without the network: straight on, or aside if a body is in the way."""
    body = bodies[snake]
    straight = around_torus(body)
    if not body:
        return straight
    taken = {cell for each in bodies for cell in each[:-1]}
    for direction in (straight, *((direction + straight) % 4 for direction in (2, 3, 1))):
        if direction != straight ^ 1 and beside(body[0], *STEPS[direction]) not in taken:
            return direction
    return straight


def unpacked(shapes, text):
    """The layers (weight [inputs, outputs], bias) from base64 of little-endian floats.

    Or of half floats, after a factor for each input.
    """
    data = base64.b64decode(text)
    if len(data) == 4 * sum(inputs * outputs + outputs for inputs, outputs in shapes):
        numbers = np.frombuffer(data, "<f4")
    else:
        inputs, outputs = shapes[0]
        numbers = np.frombuffer(data, "<f2", offset=4 * inputs).astype(np.float32)
        numbers[: inputs * outputs] *= np.repeat(np.frombuffer(data, "<f4", inputs), outputs)
    layers, at = [], 0
    for inputs, outputs in shapes:
        weight = numbers[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        layers.append((weight, numbers[at : at + outputs]))
        at += outputs
    return layers


# --- the trained policy: written by the export ------------------------------------------------------------------------
ENCODE = ENCODERS["features"]
LAYERS = unpacked([], "")
