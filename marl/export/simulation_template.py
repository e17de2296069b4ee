"""The simulation of the planning submission: draws, rules and encoders for N matches at once. Needs only numpy.

Appended to submission_template.py by `export --jidi DIR --plan MS`, from the first ruled comment on. Draws are those of
arena/rng.py, rules those of arena/rules.py, encoders those of arena/encoders.
"""

import numpy as np

from marl.export.submission_template import (
    AROUND,
    BEANS,
    CELLS,
    COLUMNS,
    LEAD_MAX,
    MIRRORED,
    REACH,
    ROWS,
    SIDE,
    SNAKES,
    START_LENGTH,
    STEPS,
    TEAM,
    TURNS,
    WAIT_MAX,
    as_respawned,
    beside,
    first_room,
    to_local,
)  # fmt: skip

# --- draws: a pure function of (key, turn, slot), as in the arena -----------------------------------------------------

MASK32, GOLDEN = 0xFFFFFFFF, 0x9E3779B9
SLOT_REVERSAL, SLOT_BEAN, SLOT_ACTION, RETRY, UNBIAS = 0, 32, 216, 1 << 8, 1 << 20
BEAN_TRIES = 32  # drawn cells, before the free cells of a crowded board are counted


def mix32(x):
    """Spread the bits of 32-bit numbers over all 32 bits."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & MASK32
    return x ^ (x >> 16)


def match_key(seed, number):
    """63-bit key of a rollout."""
    high, low = GOLDEN, MASK32 - GOLDEN
    for word in (seed & MASK32, (seed >> 32) & MASK32, number & MASK32, (number >> 32) & MASK32):
        high = mix32((high ^ word) + GOLDEN & MASK32)
        low = mix32((low ^ word) + 1 & MASK32)
    return ((high & 0x7FFFFFFF) << 32) | low


def stream_of(keys, turns):
    """What the draws of one turn have in common [N]."""
    x = mix32((keys & MASK32) ^ (turns.astype(np.uint64) * GOLDEN & MASK32))
    return mix32((x ^ (keys >> 32)) + GOLDEN & MASK32)


def bits(stream, slots):
    """32 random bits for each stream and slot."""
    return mix32((stream ^ np.asarray(slots, np.uint64)) + GOLDEN & MASK32)


def draw_below(stream, slots, bound):
    """Uniform integers below a bound, without bias."""
    product = bits(stream, slots) * np.uint64(bound)
    biased = (product & MASK32) < (MASK32 + 1) % bound
    if biased.any():
        again = draw_below(stream, np.asarray(slots) + UNBIAS, bound)
        return np.where(biased, again, (product >> 32).astype(np.intp))
    return (product >> 32).astype(np.intp)


# --- rules: N matches at once -----------------------------------------------------------------------------------------

FREE, BEAN = 0, 7  # on the board; snake s is written as s + 1
NEIGHBOURS = np.array([[beside(cell, *step) for step in STEPS] for cell in range(CELLS)])
EARLIER = np.tri(SNAKES, k=-1, dtype=bool)  # [snake, other]: other has the lower number
PARTS = ("board", "link", "entered", "head", "tail", "length", "direction", "beans", "turn", "over")


class Simulation:
    """N matches as in arena/rules.py: board, link and entered are [N, 200], snakes [N, 6], beans [N, 5] (-1: none)."""

    def __init__(self, matches=(), keys=None):
        if matches:
            self.board, self.link, self.entered = np.zeros((3, len(matches), CELLS), np.intp)
            self.head, self.tail, self.length, self.direction = np.zeros((4, len(matches), SNAKES), np.intp)
            self.beans = np.full((len(matches), BEANS), -1)
            self.turn = np.array([match.turn for match in matches])
            self.over = np.zeros(len(matches), bool)
            for n, match in enumerate(matches):
                self.direction[n] = match.directions
                self.beans[n, : len(match.beans)] = match.beans
                self.board[n, match.beans] = BEAN
                for snake, body in enumerate(match.bodies):
                    self.lay_body(n, snake, body)
            self.begin(np.zeros(len(matches), np.uint64) if keys is None else keys)

    def begin(self, keys):
        """Set the keys of the draws."""
        self.rows = np.arange(len(self.turn))[:, None]
        self.keys = np.asarray(keys, np.uint64)
        self.stream = stream_of(self.keys, self.turn)

    def repeated(self, copies, keys):
        """Copies of a single match with these keys."""
        new = Simulation()
        for part in PARTS:
            setattr(new, part, np.repeat(getattr(self, part), copies, 0))
        new.begin(keys)
        return new

    def lay_body(self, n, snake, body):
        """Put a body, head first, on the board."""
        self.head[n, snake], self.tail[n, snake], self.length[n, snake] = body[0], body[-1], len(body)
        self.link[n, body[1:]] = body[:-1]
        self.board[n, body] = snake + 1
        self.entered[n, body] = self.turn[n] - np.arange(len(body))

    def play_turn(self, moves):
        """Play one turn with moves [N, 6]; returns the growth [N, 6]. A match that is over stays as it is."""
        over = self.over.copy()
        kept = {part: getattr(self, part)[over] for part in PARTS} if over.any() else {}
        rows = self.rows
        self.turn = self.turn + 1
        self.stream = stream_of(self.keys, self.turn)
        ate = self.advance(moves)
        growth = ate.astype(np.intp)
        died = self.place_heads()
        if died.any():
            growth = np.where(died, START_LENGTH - (self.length - ate), growth)
            dead = np.zeros((len(rows), BEAN + 1), bool)
            dead[:, 1:BEAN] = died
            self.board[dead[rows, self.board]] = FREE
            self.length[died] = 0
            for n, snake in np.argwhere(died).tolist():
                self.respawn(n, snake)
        self.drop_beans()
        total = self.length.sum(1)
        self.over = (self.length == 0).any(1) | (total > CELLS - BEANS) | (self.turn >= TURNS)
        if kept:
            for part, values in kept.items():
                getattr(self, part)[over] = values
            growth[over], ate[over], died[over] = 0, False, False
        self.ate, self.died = ate, died
        return growth

    def advance(self, moves):
        """Move the heads, eat, give up tail cells; returns who ate [N, 6]. The heads are not on the board yet."""
        rows = self.rows
        reversal = moves == self.direction ^ 1
        if reversal.any():
            pick = draw_below(self.stream[:, None], SLOT_REVERSAL + np.arange(SNAKES), 3)
            moves = np.where(reversal, pick + (pick >= moves), moves)
        self.direction = moves.astype(np.intp)
        neck = self.head
        self.head = head = NEIGHBOURS[neck, self.direction]
        self.link[rows, neck] = head
        ate = self.board[rows, head] == BEAN
        if ate.any():
            # Of several heads on a bean the lowest snake eats.
            ate &= ~((head[:, :, None] == head[:, None]) & EARLIER).any(-1)
            n, snake = np.nonzero(ate)
            self.board[n, head[n, snake]] = FREE
            self.beans[(self.beans[:, :, None] == np.where(ate, head, -2)[:, None]).any(-1)] = -1
            self.beans = np.take_along_axis(self.beans, np.argsort(self.beans < 0, axis=1, kind="stable"), 1)
            self.length = self.length + ate
        n, snake = np.nonzero(~ate)
        tail = self.tail[n, snake]
        self.board[n, tail] = FREE
        self.tail[n, snake] = self.link[n, tail]
        return ate

    def place_heads(self):
        """Put the moved heads on the board; returns who died [N, 6]: who shares a cell with any other segment."""
        rows, head = self.rows, self.head
        taken = self.board[rows, head] != FREE
        same = head[:, :, None] == head[:, None]
        placed = ~taken & ~(same & EARLIER).any(-1)
        n, snake = np.nonzero(placed)
        at = head[n, snake]
        self.board[n, at] = snake + 1
        self.entered[n, at] = self.turn[n]
        return taken | (same.sum(-1) > 1)

    def respawn(self, n, snake):
        """Give a dead snake the first room of three cells."""
        body = first_room(set(np.flatnonzero(self.board[n]).tolist()))
        if body:
            self.lay_body(n, snake, body)
            self.direction[n, snake] = as_respawned(body)

    def drop_beans(self):
        """Refill to five beans, each on a drawn free cell."""
        count = (self.beans >= 0).sum(1)
        missing = 0
        n = np.flatnonzero(count < BEANS)
        while len(n):
            cells = np.full(len(n), -1)
            open_ = np.arange(len(n))  # rows without a cell
            for attempt in range(BEAN_TRIES):
                drawn = draw_below(self.stream[n[open_]], SLOT_BEAN + missing + RETRY * attempt, CELLS)
                free = self.board[n[open_], drawn] == FREE
                cells[open_[free]] = drawn[free]
                open_ = open_[~free]
                if not len(open_):
                    break
            for i in open_:  # a crowded board
                free = np.flatnonzero(self.board[n[i]] == FREE)
                if len(free):
                    slot = SLOT_BEAN + missing + RETRY * BEAN_TRIES
                    cells[i] = free[draw_below(self.stream[n[i : i + 1]], slot, len(free))[0]]
            n, cells = n[cells >= 0], cells[cells >= 0]
            self.board[n, cells] = BEAN
            self.beans[n, count[n]] = cells
            count[n] += 1
            n = n[count[n] < BEANS]
            missing += 1


# --- encoders: the observations of S of the six snakes (seen) of N matches --------------------------------------------

SNAKE = np.arange(SNAKES)
MATES = np.array([[other for other in SNAKE if other // TEAM == s // TEAM and other != s] for s in SNAKE])
RIVALS = np.array([[other for other in SNAKE if other // TEAM != s // TEAM] for s in SNAKE])
# By orientation: local actions of those on the board and back, rows and columns of local steps, cells around a head.
LOCAL_ACTIONS = np.array([[STEPS.index(to_local(o, *step)) for step in STEPS] for o in range(2 * MIRRORED)])
BOARD_ACTIONS = np.argsort(LOCAL_ACTIONS, axis=1)
LOCAL_STEPS = np.array(STEPS)[LOCAL_ACTIONS]
AROUND_STEPS = np.array(
    [[step for _, step in sorted((to_local(o, *step), step) for step in AROUND)] for o in range(2 * MIRRORED)]
)
# CENTRED[head, cell]: where the cell lies on a plane with the head in its middle.
_row, _column = np.divmod(np.arange(CELLS), COLUMNS)
CENTRED = (_row - _row[:, None] + ROWS // 2) % ROWS * COLUMNS + (_column - _column[:, None] + COLUMNS // 2) % COLUMNS
# PLANE_START[snake, byte of the board]: the first number of the plane that shows it.
PLANE_START = CELLS * np.array(
    [[0] + [0 if o == s else 1 if o // TEAM == s // TEAM else 2 for o in SNAKE] + [5] for s in SNAKE]
)


def waits(sims, most=WAIT_MAX):
    """Turns until the cells are free, capped, [N, 200]; 0 for cells without a snake."""
    lengths = np.zeros((len(sims.turn), BEAN + 1), np.intp)
    lengths[:, 1:BEAN] = sims.length
    left = lengths[sims.rows, sims.board] - (sims.turn[:, None] - sims.entered)
    return np.clip(left, 0, most) * (sims.board % BEAN > 0)


def batched_planes(sims, seen=SNAKE):
    """`planes` of these seats [N * S, 1208], and orientations [N, S]."""
    n, cell = np.nonzero(sims.board)
    what = sims.board[n, cell]
    shown = np.where(what == BEAN, 1, waits(sims)[n, cell])
    seat, heads = np.arange(len(seen)), sims.head[:, seen]
    obs = np.zeros((*heads.shape, 6 * CELLS + 8), np.float32)
    obs[n[:, None], seat, PLANE_START[seen][:, what].T + CENTRED[heads[n], cell[:, None]]] = shown[:, None]
    places = CENTRED[heads[..., None], sims.head[:, None]]  # [n, seat, other]
    present = sims.length > 0
    rows = sims.rows[..., None]
    for plane, others in ((3, MATES[seen]), (4, RIVALS[seen])):
        obs[rows, seat[:, None], plane * CELLS + np.take_along_axis(places, others[None], 2)] = present[:, others]
    obs[sims.rows, seat, 6 * CELLS + sims.direction[:, seen]] = 1
    totals = np.repeat(sims.length.reshape(-1, 2, TEAM).sum(-1), TEAM, 1)
    obs[..., -4] = sims.length[:, seen]
    obs[..., -3] = totals[:, seen]
    obs[..., -2] = totals[:, ::-1][:, seen]
    obs[..., -1] = TURNS - sims.turn[:, None]
    return obs.reshape(-1, obs.shape[-1]), np.zeros(heads.shape, np.intp)


def batched_features(sims, seen=SNAKE):
    """`features` of these seats [N * S, 80], and orientations [N, S]."""
    return batched_vector(sims, seen, np.zeros((len(sims.turn), len(seen)), np.intp))


def batched_canonical(sims, seen=SNAKE):
    """`canonical` of these seats [N * S, 80], and orientations [N, S]."""
    orientation = sims.direction[:, seen]
    nearest = bean_entries(sims, seen, orientation)[..., 0]
    return batched_vector(sims, seen, orientation + MIRRORED * (signed(nearest >> 8) < 0))


def signed(numbers):
    """The lowest byte as a signed number."""
    return ((numbers & 255) ^ 128) - 128


def apart_all(cells, others):
    """Rows and columns from [..., K] cells to [..., M] others, the shorter way, as [..., K, M]."""
    rows = (others // COLUMNS)[..., None, :] - (cells // COLUMNS)[..., None]
    columns = (others % COLUMNS)[..., None, :] - (cells % COLUMNS)[..., None]
    return (rows + ROWS // 2) % ROWS - ROWS // 2, (columns + COLUMNS // 2) % COLUMNS - COLUMNS // 2


def to_local_all(orientation, rows, columns):
    """`to_local` for arrays."""
    turned = orientation & 2 > 0
    sign = 1 - 2 * (orientation & 1)
    ahead, aside = np.where(turned, columns, rows), np.where(turned, -rows, columns)
    return sign * ahead, sign * aside * (1 - 2 * (orientation >> 2))


def bean_entries(sims, seen, orientation):
    """Beans as the training encoder's sortable numbers [N, S, 5], nearest first."""
    rows, columns = apart_all(sims.head, sims.beans)
    of_all = abs(rows) + abs(columns)
    rows, columns = to_local_all(orientation[..., None], rows[:, seen], columns[:, seen])
    far = of_all[:, seen]
    lead_foe = of_all[:, RIVALS[seen]].min(2) - far
    lead_mate = of_all[:, MATES[seen]].min(2) - far
    entries = far << 32 | (lead_mate & 255) << 24 | (lead_foe & 255) << 16 | (columns & 255) << 8 | rows & 255
    none = 31 << 32 | (256 - LEAD_MAX) << 24 | (256 - LEAD_MAX) << 16
    return np.sort(np.where(sims.beans[:, None] < 0, none, entries), -1)


def batched_vector(sims, seen, orientation):
    """The 80 numbers of `features` and `canonical` in these orientations."""
    seat, heads = np.arange(len(seen)), sims.head[:, seen]
    obs = np.zeros((*orientation.shape, 80), np.float32)
    steps = AROUND_STEPS[orientation]  # [n, seat, 12, 2]
    rows = (heads // COLUMNS)[..., None] + steps[..., 0]
    columns = (heads % COLUMNS)[..., None] + steps[..., 1]
    obs[..., :12] = waits(sims)[sims.rows[..., None], rows % ROWS * COLUMNS + columns % COLUMNS]
    obs[sims.rows, seat, 12 + LOCAL_ACTIONS[orientation, sims.direction[:, seen]]] = 1

    rows, columns = apart_all(heads, sims.head)
    far = abs(rows) + abs(columns)
    rows, columns = to_local_all(orientation[..., None], rows, columns)
    nearer = np.stack((rows < 0, rows > 0, columns < 0, columns > 0), -1) & (far == 2)[..., None]
    each = seat[:, None]
    obs[..., 16:20] = nearer[:, each, RIVALS[seen]].sum(2)
    obs[..., 20:24] = nearer[:, each, MATES[seen]].sum(2)

    totals = sims.length.reshape(-1, 2, TEAM).sum(-1)
    obs[..., 24] = np.minimum(127, sims.length[:, seen])
    obs[..., 25] = (TURNS - sims.turn[:, None]) >> 1
    obs[..., 26] = np.clip(totals - totals[:, ::-1], -127, 127)[:, seen // TEAM]

    beans = bean_entries(sims, seen, orientation)
    for byte in range(4):
        obs[..., 28 + byte : 48 : 4] = signed(beans >> 8 * byte)
    towards = LOCAL_STEPS[orientation[:, :, None], sims.direction[:, None]] & 255  # [n, seat, other, 2]
    entries = far << 40 | towards[..., 1] << 32 | towards[..., 0] << 24
    entries |= np.minimum(127, sims.length)[:, None] << 16 | (columns & 255) << 8 | rows & 255
    for at, others in ((48, MATES), (58, RIVALS)):
        nearest = np.sort(entries[:, each, others[seen]], -1)
        for byte in range(5):
            obs[..., at + byte : at + 5 * others.shape[1] : 5] = signed(nearest >> 8 * byte)
    obs[..., 78] = orientation >> 1 & 1
    obs[..., 79] = orientation
    return obs.reshape(-1, 80), orientation


# WINDOW_CELLS[orientation, head]: the cells of the window, row by row in local coordinates.
_around = range(-REACH, REACH + 1)
_steps = np.array(
    [
        [step for _, step in sorted((to_local(o, row, column), (row, column)) for row in _around for column in _around)]
        for o in range(2 * MIRRORED)
    ]
)[:, None]
_rows, _columns = (_row[:, None] + _steps[..., 0]) % ROWS, (_column[:, None] + _steps[..., 1]) % COLUMNS
WINDOW_CELLS = (_rows * COLUMNS + _columns).astype(np.int16)
# SHOWN_AT[snake, byte of the board]: where its plane begins in the window; likewise for heads. What has no plane is 0.
SHOWN_AT = np.array([[0 if o == s else 1 if o // TEAM == s // TEAM else 2 for o in SNAKE] for s in SNAKE])
HEADS_AT = SIDE**2 * np.pad(SHOWN_AT + 2, ((0, 0), (1, 1)), "constant")
SHOWN_AT = SIDE**2 * np.pad(SHOWN_AT, ((0, 0), (1, 1)), "constant", constant_values=((0, 0), (0, 5)))


def batched_egocentric(sims, seen=SNAKE, more=0):
    """`egocentric` of these seats [N * S, 1096 + more], and orientations [N, S]; the last `more` numbers are 0."""
    vector, orientation = batched_canonical(sims, seen)
    cells = WINDOW_CELLS[orientation, sims.head[:, seen]] + CELLS * sims.rows[..., None]  # [n, seat, 169]
    values = np.where(sims.board == BEAN, 1, waits(sims))
    heads = np.zeros_like(sims.board)
    heads[sims.rows, sims.head] = np.where(sims.length > 0, SNAKE + 1, FREE)
    window = 6 * SIDE**2
    obs = np.zeros((len(vector), window + 2 + vector.shape[1] + more), np.float32)
    obs[:, window + 2 : window + 2 + vector.shape[1]] = vector
    places = obs.shape[1] * np.arange(len(vector)).reshape(-1, len(seen), 1) + np.arange(SIDE**2)
    np.put(obs, places + SHOWN_AT[seen[:, None], np.take(sims.board, cells)], np.take(values, cells))
    n, seat, place = np.nonzero(np.take(heads, cells))
    whose = heads.reshape(-1)[cells[n, seat, place]]
    others = whose != seen[seat] + 1
    n, seat, place, whose = n[others], seat[others], place[others], whose[others]
    obs[n * len(seen) + seat, HEADS_AT[seen[seat], whose] + place] = 1
    return obs, orientation


BATCHED = {
    "features": batched_features,
    "canonical": batched_canonical,
    "planes": batched_planes,
    "egocentric": batched_egocentric,
}
