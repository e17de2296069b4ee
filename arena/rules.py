"""The rules of one 3v3 Snake match, exactly as the competition plays them.

Everything else in the project calls these functions: a loop over matches on the CPU, a kernel with one thread per match
on the GPU, and the PettingZoo environment for a single match. With NUMBA_DISABLE_JIT=1 they are ordinary Python.

The board is a torus of 10 rows and 20 columns; a cell is row * 20 + column. Six snakes, 0-2 red and 3-5 blue; five
beans. Moves and directions: 0 up, 1 down, 2 left, 3 right; the opposite of d is d ^ 1.

A match is one row of bytes. The named offsets below say what lies where: `match[HEAD + snake]` is the cell of a head.
Bodies are chains of cells from tail to head, so one turn costs the same however long the snakes are.
"""

from arena.jit import njit
from arena.rng import RETRY, SLOT_BEAN, SLOT_REVERSAL, SLOT_START, draw_below

# Raised when behaviour changes (never for speed). Replays and snapshots carry it.
RULES_VERSION = 1

ROWS, COLUMNS, CELLS = 10, 20, 200
SNAKES, TEAM, BEANS_MAX = 6, 3, 5
START_LENGTH = 3
TURNS = 200
# The match ends when five beans and all bodies no longer fit on the board.
LENGTH_MAX = CELLS - BEANS_MAX
UP, DOWN, LEFT, RIGHT = 0, 1, 2, 3
ACTIONS = 4  # that a snake can choose from, in this order

# What a byte of the board says. Snake s is written as SNAKE + s.
FREE, SNAKE, BEAN = 0, 1, 7

# Where things lie in a match's row.
SPARE = CELLS  # beyond the board one cell per snake, for a tail that shares its cell with another's (match_dict.py)
PLACES = CELLS + SNAKES
BOARD = 0  # [206] FREE, SNAKE + s or BEAN
LINK = BOARD + PLACES  # [206] for a body cell: the cell of the next segment towards the head
ENTERED = LINK + PLACES  # [206] for a body cell: the turn (mod 256) on which the head came here
HEAD = ENTERED + PLACES + 1  # [6] cells, between two spare bytes
TAIL = HEAD + SNAKES + 1  # [6]
LENGTH = TAIL + SNAKES + 1  # [6] between two zero bytes, see turns_until_free; 0 = no room was found to respawn
DIRECTION = LENGTH + SNAKES + 1  # [6] stored direction: what a reversal is measured against
BEANS = DIRECTION + SNAKES  # [5] cells, oldest first
BEAN_COUNT = BEANS + BEANS_MAX
TURN = BEAN_COUNT + 1  # turns already played, 0..200
OVER = TURN + 1  # 1 when the match has ended
MATCH_BYTES = OVER + 1


@njit
def neighbour(cell, direction):
    """The next cell in a direction, around the torus.

    Selects, no jumps, since directions are hard to predict; the last & tells the compiler that no cell is negative.
    Both were measured: together they doubled the speed of a turn.
    """
    step = 2 * (direction & 1) - 1
    below = cell + COLUMNS * step
    below += CELLS if below < 0 else 0
    below -= CELLS if below >= CELLS else 0
    column = cell % COLUMNS
    beside = column + step
    beside = COLUMNS - 1 if beside < 0 else beside
    beside = 0 if beside == COLUMNS else beside
    return (below if direction < LEFT else cell - column + beside) & 255


@njit
def turns_until_free(match, cell):
    """Turns until the segment on this cell has moved on, if its snake neither eats nor dies: 1 for a tail.

    0 or less for a cell without a snake: FREE and BEAN find a zero byte on either side of the lengths.
    """
    length = int(match[LENGTH + int(match[BOARD + cell]) - SNAKE])
    return length - ((int(match[TURN]) - int(match[ENTERED + cell])) & 255)


@njit
def first_mate(snake):
    """The first snake of the same team: 0 for red, 3 for blue."""
    return snake - snake % TEAM


@njit
def first_foe(snake):
    """The first snake of the other team."""
    return TEAM - first_mate(snake)


@njit
def team_length(match, first):
    """Length of the three snakes from `first` on: 0 for red, 3 for blue."""
    total = 0
    for snake in range(first, first + TEAM):
        total += int(match[LENGTH + snake])
    return total


@njit
def play_turn(match, key, moves, ate, died, reward):
    """Play one turn of all six snakes; returns whether the match is over.

    Fills ate, died and reward (the change of length). A match that is over stays as it is.
    """
    clear_events(ate, died, reward)
    if match[OVER]:
        return True
    turn = int(match[TURN]) + 1
    match[TURN] = turn

    for snake in range(SNAKES):
        advance(match, key, turn, snake, int(moves[snake]), ate, reward)
    if place_heads(match, turn, died):
        for snake in range(SNAKES):
            if died[snake]:
                reward[snake] = START_LENGTH - (int(match[LENGTH + snake]) - int(ate[snake]))
                clear_body(match, snake)
        for snake in range(SNAKES):
            if died[snake]:
                respawn(match, turn, snake)
    drop_beans(match, key, turn)
    over = is_over(match)
    match[OVER] = over
    return over


@njit
def clear_events(ate, died, reward):
    """Nothing has happened yet."""
    for snake in range(SNAKES):
        ate[snake] = False
        died[snake] = False
        reward[snake] = 0


@njit
def advance(match, key, turn, snake, move, ate, reward):
    """Move one head, eat, or give up the tail cell. The head is not on the board yet: that is for place_heads."""
    direction = int(match[DIRECTION + snake])
    if move == direction ^ 1:
        # A reversal is not ignored: one of the other three directions is drawn.
        pick = draw_below(key, turn, SLOT_REVERSAL + snake, 3)
        move = pick if pick < move else pick + 1
    match[DIRECTION + snake] = move

    neck = int(match[HEAD + snake])
    head = neighbour(neck, move)
    match[HEAD + snake] = head
    match[LINK + neck] = head
    if match[BOARD + head] == BEAN:
        # Gone at once: a snake of higher index that gets here on the same turn finds none.
        take_bean(match, head)
        match[LENGTH + snake] += 1
        ate[snake] = True
        reward[snake] = 1
    else:
        tail = int(match[TAIL + snake])
        match[BOARD + tail] = FREE
        match[TAIL + snake] = match[LINK + tail]


@njit
def take_bean(match, cell):
    """Remove the bean on this cell; the others keep their order."""
    last = int(match[BEAN_COUNT]) - 1
    found = False
    for i in range(last):
        found = found or match[BEANS + i] == cell
        if found:
            match[BEANS + i] = match[BEANS + i + 1]
    match[BEAN_COUNT] = last
    match[BOARD + cell] = FREE


@njit
def place_heads(match, turn, died):
    """Put the moved heads on the board and find who dies: a snake whose head is in the cell of any other segment.

    All tails have moved by now, bodies of dying snakes still count, lengths and teams do not matter.
    """
    anyone = False
    for snake in range(SNAKES):
        head = int(match[HEAD + snake])
        there = int(match[BOARD + head])
        if there == FREE:
            match[BOARD + head] = SNAKE + snake
            match[ENTERED + head] = turn & 255
        else:
            anyone = True
            died[snake] = True
            if match[HEAD + there - SNAKE] == head:  # head-on: the one that was placed first dies too
                died[there - SNAKE] = True
    return anyone


@njit
def clear_body(match, snake):
    """Take a dead snake off the board."""
    head = int(match[HEAD + snake])
    if match[BOARD + head] == SNAKE + snake:
        match[BOARD + head] = FREE
    cell = int(match[TAIL + snake])
    for _ in range(int(match[LENGTH + snake]) - 1):
        match[BOARD + cell] = FREE
        cell = int(match[LINK + cell])
    match[LENGTH + snake] = 0


@njit
def respawn(match, turn, snake):
    """Give a dead snake the first room of three cells, scanning the board from the top left.

    The search is the competition's own, with its oddities: the body may be disconnected (head in the middle),
    and the direction is read off without regard for the torus. No room at all leaves the snake without a body.
    """
    for start in range(CELLS):
        if match[BOARD + start] != FREE:
            continue
        first = free_neighbour(match, start, -1)
        if first < 0:
            continue
        second = free_neighbour(match, start, first)
        if second < 0:
            second = free_neighbour(match, first, start)
            if second < 0:
                continue
        head, neck = start, first
        row = start // COLUMNS
        column = start % COLUMNS
        row1 = first // COLUMNS
        row2 = second // COLUMNS
        column1 = first % COLUMNS
        column2 = second % COLUMNS
        if (row == row1 and column == column2) or (row == row2 and column == column1):
            head, neck = first, start  # start is the corner of an L: the head goes to the end of an arm
        lay_body(match, turn, snake, head, neck, second)
        if head // COLUMNS == neck // COLUMNS:
            match[DIRECTION + snake] = RIGHT if head > neck else LEFT
        else:
            match[DIRECTION + snake] = DOWN if head > neck else UP
        return


@njit
def free_neighbour(match, cell, other):
    """First free neighbour of a cell in the order right, down, up, left, `other` left out; -1 if there is none."""
    for direction in (RIGHT, DOWN, UP, LEFT):
        beside = neighbour(cell, direction)
        if beside != other and match[BOARD + beside] == FREE:
            return beside
    return -1


@njit
def lay_body(match, turn, snake, head, middle, tail):
    """Put a three-cell body on the board."""
    match[HEAD + snake] = head
    match[TAIL + snake] = tail
    match[LENGTH + snake] = START_LENGTH
    match[LINK + tail] = middle
    match[LINK + middle] = head
    for age, cell in enumerate((head, middle, tail)):
        match[BOARD + cell] = SNAKE + snake
        match[ENTERED + cell] = (turn - age) & 255


@njit
def drop_beans(match, key, turn):
    """Refill to five beans, each on a uniformly drawn free cell; fewer if the board is full."""
    missing = 0
    while match[BEAN_COUNT] < BEANS_MAX:
        cell = draw_free_cell(match, key, turn, SLOT_BEAN + missing)
        if cell < 0:
            return
        match[BOARD + cell] = BEAN
        match[BEANS + int(match[BEAN_COUNT])] = cell
        match[BEAN_COUNT] += 1
        missing += 1


@njit
def draw_free_cell(match, key, turn, slot):
    """A uniformly drawn free cell, or -1 on a full board."""
    for attempt in range(32):
        cell = draw_below(key, turn, slot + RETRY * attempt, CELLS)
        if match[BOARD + cell] == FREE:
            return cell
    # A crowded board: count what is free and take one of those.
    free = 0
    for cell in range(CELLS):
        free += match[BOARD + cell] == FREE
    if free == 0:
        return -1
    skip = draw_below(key, turn, slot + RETRY * 32, free)
    for cell in range(CELLS):
        if match[BOARD + cell] == FREE:
            if skip == 0:
                return cell
            skip -= 1
    return -1


@njit
def is_over(match):
    """200 turns, a board too full for the beans, or a snake that found no room."""
    total = 0
    empty = False
    for snake in range(SNAKES):
        length = int(match[LENGTH + snake])
        total += length
        empty = empty or length == 0
    return empty or total > LENGTH_MAX or match[TURN] >= TURNS


@njit
def start(match, key):
    """Start a match: six straight snakes of three on drawn places, facing away from their tails, and five beans."""
    for i in range(MATCH_BYTES):
        match[i] = 0
    fill_board(match, key)


@njit
def fill_board(match, key):
    """The rest of `start`, for a match of zeros."""
    for snake in range(SNAKES):
        slot = SLOT_START + snake
        placed = False
        while not placed:
            drawn = draw_below(key, 0, slot, 4 * CELLS)
            slot += RETRY
            direction = drawn // CELLS
            tail = drawn % CELLS
            middle = neighbour(tail, direction)
            head = neighbour(middle, direction)
            placed = match[BOARD + tail] == FREE and match[BOARD + middle] == FREE and match[BOARD + head] == FREE
        match[DIRECTION + snake] = direction
        lay_body(match, 0, snake, head, middle, tail)
    drop_beans(match, key, 0)
