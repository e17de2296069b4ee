"""A trained team for the competition snakes_3v3: one file that needs numpy and nothing else.

my_controller turns the competition's dictionary into exactly what the network saw in training, and takes the likeliest
move that is no reversal. What the dictionary does not say is worked out from the turn before: which turn it is, and
the direction that each snake has stored (it is shown one turn late, and a respawned snake's ignores the torus).
"""

import base64

import numpy as np

ROWS, COLUMNS, CELLS = 10, 20, 200
SNAKES, TEAM, BEANS, TURNS, START_LENGTH = 6, 3, 5, 200, 3
UP, DOWN, LEFT, RIGHT = 0, 1, 2, 3  # the opposite of d is d ^ 1
NAMES = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
BEAN_KEY, FIRST_SNAKE_KEY = 1, 2
WAIT_MAX = 8  # turns until a cell is free, capped
LEAD_MAX = 15  # the longest way on the torus

_match = None  # what is known of the match that is played; a new one starts from nothing


class Match:
    """A match on one turn. A cell is row * 20 + column; bodies are lists of cells, head first."""

    def __init__(self, turn, bodies, directions, beans):
        self.turn, self.bodies, self.directions, self.beans = turn, bodies, directions, beans
        self.answers = {}  # our own moves on this turn, by snake


def my_controller(observation, action_space, is_act_continuous=False):
    """The move of the snake that the observation is for, as [[one-hot of 4]]. Never raises."""
    move = UP
    try:
        bodies = [cells(observation, FIRST_SNAKE_KEY + snake) for snake in range(SNAKES)]
        beans = cells(observation, BEAN_KEY)
        snake = range(SNAKES).index(int(observation["controlled_snake_index"]) - FIRST_SNAKE_KEY)
        move = evade(bodies, snake)
        starts = observation.get("last_direction", ()) is None
        follow(bodies, beans, stale_directions(observation), starts)
        move = _match.answers[snake] = choose(_match, snake)
    except Exception:  # whatever the observation is: a move, even a poor one, is better than a forfeit
        pass
    return [[int(move == each) for each in range(4)]]


# --- reading the dictionary -------------------------------------------------------------------------------------------


def cells(observation, key):
    """Beans or a body as numbers of cells, in a list of our own: the dictionary is the live game. Empty if odd."""
    try:
        places = observation[key] if key in observation else observation[str(key)]  # texts, if it went through JSON
        return [int(row) % ROWS * COLUMNS + int(column) % COLUMNS for row, column in places]
    except Exception:
        return []


def stale_directions(observation):
    """The directions before the last turn; None at the start of a match, or where they are not told well."""
    names = observation.get("last_direction")
    if names is None or len(names) != SNAKES or any(name not in NAMES for name in names):
        return None
    return [NAMES.index(name) for name in names]


def follow(bodies, beans, stale, starts):
    """Bring what is known of the match up to this turn."""
    global _match
    before = _match
    if before is not None and before.bodies == bodies and before.beans == beans:
        return  # a mate has asked on this turn already
    goes_on = [False] * SNAKES
    if before is not None:
        goes_on = [has_moved(before, bodies, beans, snake) for snake in range(SNAKES)]
    if starts or (stale is None and not any(goes_on)):
        _match = Match(0, bodies, [around_torus(body) for body in bodies], beans)
    elif before is None:  # taken up in the middle: nobody can reverse, so who seems to has respawned
        known = []
        for snake, body in enumerate(bodies):
            direction = around_torus(body)
            known.append(direction if direction != stale[snake] ^ 1 else as_respawned(body))
        _match = Match(1, bodies, known, beans)
    else:
        known = [around_torus(body) if goes_on[i] else as_respawned(body) for i, body in enumerate(bodies)]
        _match = Match(min(before.turn + 1, TURNS - 1), bodies, known, beans)


def has_moved(before, bodies, beans, snake):
    """Whether a body is that of the turn before, moved by one cell; otherwise the snake has died and respawned.

    A respawned body can lie just where the old one could have moved to. Of an own snake we know what we answered; of a
    foe we believe that it moved (such a body is one in ten thousand, and it is in doubt for one turn only).
    """
    body, old = bodies[snake], before.bodies[snake]
    if not body or not old or len(body) != len(old) + (body[0] in before.beans) or body[1:] != old[: len(body) - 1]:
        return False
    direction = around_torus(body)
    if len(body) > START_LENGTH or direction == as_respawned(body) or before.answers.get(snake, direction) == direction:
        return True
    others = {cell for i, other in enumerate(bodies) if i != snake for cell in other}
    return body != first_room(others.union(bean for bean in before.beans if bean in beans))


def first_room(taken):
    """Where the game lets a snake begin again: three cells that hang together, the first from the top left."""
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
    """The free cells around a cell, in the game's order."""
    around = [beside(cell, *STEPS[direction]) for direction in (RIGHT, DOWN, UP, LEFT)]
    return [each for each in around if each not in taken]


def around_torus(body):
    """The direction from the neck to the head, the short way round."""
    if len(body) < 2:
        return UP
    rows, columns = apart(body[1], body[0])
    if columns == 0:
        return DOWN if rows > 0 else UP
    return RIGHT if columns > 0 else LEFT


def as_respawned(body):
    """The direction that the game stores for a new body: by plain comparison, whatever the torus says."""
    if len(body) < 2:
        return UP
    head, neck = body[0], body[1]
    if head // COLUMNS == neck // COLUMNS:
        return RIGHT if head > neck else LEFT
    return DOWN if head > neck else UP


def apart(start, end):
    """Rows and columns from one cell to another, the short way round."""
    rows = (end // COLUMNS - start // COLUMNS + ROWS // 2) % ROWS - ROWS // 2
    columns = (end % COLUMNS - start % COLUMNS + COLUMNS // 2) % COLUMNS - COLUMNS // 2
    return rows, columns


def beside(cell, rows, columns):
    """The cell so many rows and columns away."""
    return (cell // COLUMNS + rows) % ROWS * COLUMNS + (cell + columns) % COLUMNS


# --- encoders: what the network saw in training, and the frame in which the snake held the board ----------------------


def features(match, snake):
    """80 small numbers: what is around the head, beans and other heads nearest first."""
    return vector(match, snake, 0), 0


def turned(match, snake):
    """The same where the snake holds the board so that it looks up and its nearest bean is not on the left."""
    frame = match.directions[snake]
    row = vector(match, snake, frame)
    if row[BEAN_COLUMNS] >= 0:
        return row, frame
    return vector(match, snake, frame + MIRRORED), frame + MIRRORED


def seen(frame, rows, columns):
    """How many rows and columns away something is, as seen in a frame.

    A frame is the direction that becomes up, and 4 more where left and right are swapped afterwards.
    """
    ahead, aside = (columns, -rows) if frame & 2 else (rows, columns)
    sign = 1 - 2 * (frame & 1)
    return sign * ahead, sign * aside * (1 - 2 * (frame >> 2))


def vector(match, snake, frame):
    """The 80 numbers of the board as seen in a frame."""
    bodies = match.bodies
    body = bodies[snake]
    head = body[0]
    heads = [each[0] if each else head for each in bodies]
    waits = [0] * CELLS
    for each in bodies:
        for age, cell in enumerate(each):
            waits[cell] = min(WAIT_MAX, len(each) - age)
    around = sorted(AROUND, key=lambda place: seen(frame, *place))  # row by row, as they are seen
    row = [waits[beside(head, rows, columns)] for rows, columns in around]
    steps = [seen(frame, *step) for step in STEPS]
    row += [int(steps[match.directions[snake]] == step) for step in STEPS]

    team = snake - snake % TEAM
    mates = [other for other in range(team, team + TEAM) if other != snake]
    foes = list(range(TEAM - team, TEAM - team + TEAM))
    for others in (foes, mates):
        near = [0, 0, 0, 0]
        for other in others:
            rows, columns = seen(frame, *apart(head, heads[other]))
            if abs(rows) + abs(columns) == 2:
                for direction, there in enumerate((rows < 0, rows > 0, columns < 0, columns > 0)):
                    near[direction] += there
        row += near

    lengths = [len(each) for each in bodies]
    lead = sum(lengths[other] for other in (snake, mates[0], mates[1])) - sum(lengths[other] for other in foes)
    row += [min(127, lengths[snake]), (TURNS - match.turn) >> 1, max(-127, min(127, lead)), 0]

    # Sorted as the packed numbers of the training encoder: by distance, then by the bytes from last to first.
    entries = []
    for bean in match.beans[:BEANS]:
        far = [abs(rows) + abs(columns) for rows, columns in (apart(each, bean) for each in heads)]
        own = far[snake]
        to_foe = min(far[other] for other in foes) - own
        to_mate = min(far[other] for other in mates) - own
        entries.append((own, [*seen(frame, *apart(head, bean)), to_foe, to_mate]))
    entries += [(31, [0, 0, -LEAD_MAX, -LEAD_MAX])] * (BEANS - len(entries))
    row += in_order(entries)
    for others in (mates, foes):
        entries = []
        for other in others:
            rows, columns = seen(frame, *apart(head, heads[other]))
            shown = [rows, columns, min(127, lengths[other]), *steps[match.directions[other]]]
            entries.append((abs(rows) + abs(columns), shown))
        row += in_order(entries)
    return np.array([*row, 0, 0, 0, 0, 0, frame >> 1 & 1, frame], np.float32)


MIRRORED = 4
BEAN_COLUMNS = 29  # where the columns to the nearest bean stand; 0 where there is none
AROUND = tuple((rows, columns) for rows in range(-2, 3) for columns in range(-2, 3) if 0 < abs(rows) + abs(columns) < 3)


def in_order(entries):
    """The numbers of (distance, numbers), nearest first."""
    entries.sort(key=lambda each: (each[0], [number & 255 for number in reversed(each[1])]))
    return [number for _, numbers in entries for number in numbers]


def planes(match, snake):
    """The board around the own head: own body, mates', foes' (turns until free), heads, beans; and eight numbers."""
    row = np.zeros(6 * CELLS + 8, np.float32)
    head = match.bodies[snake][0]
    down, right = ROWS // 2 - head // COLUMNS, COLUMNS // 2 - head % COLUMNS
    totals = [0, 0]
    for other, body in enumerate(match.bodies):
        foe = other // TEAM != snake // TEAM
        totals[foe] += len(body)
        plane = 0 if other == snake else 2 if foe else 1
        for age, cell in enumerate(body):
            row[CELLS * plane + beside(cell, down, right)] = min(WAIT_MAX, len(body) - age)
        if body and other != snake:
            row[CELLS * (plane + 2) + beside(body[0], down, right)] = 1
    for bean in match.beans:
        row[CELLS * 5 + beside(bean, down, right)] = 1
    row[CELLS * 6 + match.directions[snake]] = 1
    row[CELLS * 6 + 4 :] = len(match.bodies[snake]), totals[0], totals[1], TURNS - match.turn
    return row, 0


# --- the choice of a move ---------------------------------------------------------------------------------------------


def choose(match, snake):
    """The likeliest move; the reversal, which the game would replace by a random one, is left out."""
    row, frame = ENCODE(match, snake)
    said = logits(row)  # of the moves in the frame
    answer = np.array([said[STEPS.index(seen(frame, *step))] for step in STEPS])
    answer[match.directions[snake] ^ 1] = -np.inf
    return int(answer.argmax())


def logits(row):
    """What the network says of the four moves."""
    (weight, bias), rest = LAYERS[0], LAYERS[1:]
    there = np.flatnonzero(row)  # most of the board is empty
    hidden = product(row[there], weight[there]) + bias
    for weight, bias in rest:
        hidden = product(np.maximum(hidden, 0), weight) + bias
    return hidden


def product(row, weight):
    """row @ weight in one thread; the several that @ takes wait for each other on a busy machine (8 ms, not 0.1)."""
    return np.einsum("i,ij->j", row, weight)


def evade(bodies, snake):
    """Without the network: straight on, or aside where a body is in the way."""
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
    """The layers (weight [inputs, outputs], bias) out of base64 of little-endian floats."""
    numbers = np.frombuffer(base64.b64decode(text), "<f4")
    layers, at = [], 0
    for inputs, outputs in shapes:
        weight = numbers[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        layers.append((weight, numbers[at : at + outputs]))
        at += outputs
    return layers


# --- what was trained: written here by the export ---------------------------------------------------------------------
ENCODE = features
LAYERS = unpacked([], "")
