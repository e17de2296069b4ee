"""Planning for the submission: appended to submission_template.py by `export --jidi DIR --plan MS`. Needs only numpy.

The planner of marl/planning/planner.py, for one match and with a clock: stage 1 gives a value to every action of every
own snake, stage 2 compares all combinations of their two best actions, and the best ones are looked at again with a
second turn. Rules and encoders are those of the arena, vectorised over N copies of the match; draws are those of
arena/rng.py, so that a plan can be compared with the arena's.
"""

import ctypes
import time

import numpy as np

from marl.export.foe_models_template import FoeModels, moves_between
from marl.export.simulation_template import BATCHED, LOCAL_ACTIONS, SNAKE, Simulation, match_key
from marl.export.submission_template import (
    CELLS,
    COLUMNS,
    ENCODE,
    LAYERS,
    RIGHT,
    SNAKES,
    START_LENGTH,
    TEAM,
    TURNS,
    Match,
    choose,
    tell,
)  # fmt: skip
from marl.export.tactical_template import is_dead_end

PLAN_MS = 50
# --- planning: look ahead before moving -------------------------------------------------------------------------------

DISCOUNT, PRIOR, DEAD_END = 0.97, 0.1, 1.0  # see marl/planning/planner.py
FOES, LEAF = 0.6, 0.625  # weights of the foes' growth and of values; a submission's own are at its end
NEAR, LEAST_SHARE = 5, 0.004  # see marl/planning/planner.py
COMBINATIONS = np.stack(np.meshgrid(*[[0, 1]] * TEAM, indexing="ij"), -1).reshape(-1, TEAM)
MOST_REPLIES = 3**TEAM  # of the foes
DEVIATIONS = 1 + 2 * TEAM  # candidates of the first stage
LOOKED_AGAIN, REPLIES_AGAIN = 3, 2  # see marl/planning/planner.py
PLAYED_ON = 3  # turns, without a value head: see marl/planning/judge.py
# Copies of a second turn for each reply; a position whose six snakes are looked at takes the time of two.
AGAIN = LOOKED_AGAIN * (2 + DEVIATIONS)
FIXED = 16  # the time of a stage is that of its copies and of so many more
MARGIN, LEAST_MARGIN = 0.15, 0.002  # of the time of a call, and in seconds: left unused
FADING, ROOT_FADING = 0.5, 0.9  # of slow stages and slow starts, with every turn after them
PLAN_SEED = 0x706C616E << 31
PLANNING_FAILS = "planning fails; the policy plays alone"

choose_by_policy = choose
_foe_models: dict = {}  # by our team


def choose_planned(match, snake):
    """The planned move, or the policy's if planning fails or has no time. The first call of a turn plans all three."""
    began = time.perf_counter()
    plans = match.__dict__.setdefault("plans", {})
    team = snake // TEAM
    if plans.get(team):
        return plans[team][snake % TEAM]
    move = choose_by_policy(match, snake)
    if team not in plans:
        plans[team] = None
        try:
            seconds = PLAN_MS / 1000
            deadline = began + seconds - max(LEAST_MARGIN, MARGIN * seconds)
            models = _foe_models.setdefault(team, FoeModels(team))
            plans[team] = plan(match, team, models, Clock(deadline))[0]
        except Exception as error:  # the policy's move is there
            tell(PLANNING_FAILS, error)
    return move if plans[team] is None else plans[team][snake % TEAM]


class Clock:
    """Fits replies into the time until a deadline (seconds of time.perf_counter)."""

    copy_seconds = 0.0005  # of one copy of the match; measured, shared by all clocks
    root_seconds = 0.0  # from the start of a plan to its replies; the longest of the last plans
    slowness = 1.0  # of the slowest of the last stages: on a core with other work the next one may be as slow

    def __init__(self, deadline):
        self.deadline = deadline
        self.began = time.perf_counter()

    def can_begin(self):
        """Whether there is time to find the replies."""
        if self.deadline - self.began > Clock.root_seconds:
            return True
        Clock.root_seconds *= ROOT_FADING
        return False

    def fitting(self, wanted):
        """How many of the wanted replies fit into the time left, beside a second turn; or one, if that alone fits."""
        now = time.perf_counter()
        Clock.root_seconds = max(ROOT_FADING * Clock.root_seconds, now - self.began)
        left = self.deadline - now
        copies = left / (Clock.slowness * Clock.copy_seconds) - 3 * FIXED
        each = DEVIATIONS + len(COMBINATIONS)
        found = min(wanted, max(int((copies - REPLIES_AGAIN * AGAIN) / each), int(copies >= each)))
        if found < 1 and left > 0:  # a few slow stages must not end planning for good
            Clock.slowness = max(1.0, FADING * Clock.slowness)
            Clock.copy_seconds *= 0.9
        return max(0, found)

    def timed(self, copies, stage, *arguments):
        """What a stage of so many copies finds; the time that it takes is measured."""
        began = time.perf_counter()
        found = stage(*arguments)
        self.measure(copies, time.perf_counter() - began)
        return found

    def measure(self, copies, seconds):
        """A stage of so many copies took this long."""
        each = seconds / (copies + FIXED)
        Clock.slowness = max(1.0, FADING * Clock.slowness, each / Clock.copy_seconds)
        # A stage during which the machine did something else says little.
        Clock.copy_seconds += 0.2 * (min(each, 2 * Clock.copy_seconds) - Clock.copy_seconds)

    def fits(self, copies):
        """Whether a stage of so many copies fits, a slow one included."""
        expected = Clock.slowness * Clock.copy_seconds * (copies + FIXED)
        return time.perf_counter() + expected < self.deadline


def plan(match, team, models, clock, number=0, seed=PLAN_SEED):
    """Moves of a team (None without time), values [3, 4] of all its actions, and the replies of all stages.

    `number` is that of the match.
    """
    if not clock.can_begin():
        return None, None, (0, 0, 0)
    own = slice(team * TEAM, team * TEAM + TEAM)
    root = Simulation([match])
    log_probs = board_log_probs(root, *forward(root))[0]
    models.see(match)
    foes = models.predict(match, np.exp(log_probs[models.foes]))
    losses = dead_end_losses(root, own)
    prior = PRIOR * log_probs[own] - DEAD_END * losses
    ranked = np.argsort(-prior, axis=-1, kind="stable")[:, :3]  # legal actions, best first
    joint, shares = likeliest_replies(match, models.foes, foes)
    count = clock.fitting(len(joint))
    if not count:
        return None, None, (0, 0, 0)
    joint, shares = joint[:count], shares[:count] / shares[:count].sum()
    keys = [match_key(seed, (number * TURNS + match.turn) * MOST_REPLIES + reply) for reply in range(count)]

    replies = joint, shares, keys, own

    candidates = deviations(ranked[None])[0]
    worth = clock.timed(len(candidates) * count, play_replies, root, candidates, *replies)
    values = np.full((TEAM, 4), -np.inf)
    for snake in range(TEAM):
        values[snake, ranked[snake, 0]] = worth[0]
        values[snake, ranked[snake, 1:]] = worth[1 + 2 * snake : 3 + 2 * snake]
    values += prior

    best = np.argsort(-values, axis=-1, kind="stable")[:, :2]
    combinations = best[np.arange(TEAM), COMBINATIONS]  # [C, 3]
    known = {tuple(moves): worth[i] for i, moves in enumerate(candidates.tolist())}
    new = [moves for moves in combinations.tolist() if tuple(moves) not in known]
    if not clock.fits(len(new) * count):
        return best[:, 0].tolist(), values, (count, 0, 0)
    if new:
        found = clock.timed(len(new) * count, play_replies, root, np.array(new), *replies)
        known.update((tuple(moves), found[i]) for i, moves in enumerate(new))
    of_actions = prior[np.arange(TEAM), combinations].sum(1)
    total = np.array([known[tuple(moves)] for moves in combinations.tolist()]) + of_actions
    again = np.argsort(-total, kind="stable")[:LOOKED_AGAIN]
    some = min(count, REPLIES_AGAIN)
    if not clock.fits(AGAIN * some):
        return combinations[again[0]].tolist(), values, (count, count, 0)
    replies = joint[:some], shares[:some] / shares[:some].sum(), keys[:some], own
    total = clock.timed(AGAIN * some, play_twice, root, combinations[again], *replies) + of_actions[again]
    return combinations[again[total.argmax()]].tolist(), values, (count, count, some)


def likeliest_replies(match, foes, probs):
    """The foes' joint moves [R, 3] on this turn, likeliest first, and their probabilities [R].

    A foe that is far from all of our heads plays its likeliest move.
    """
    own = [body[0] for snake, body in enumerate(match.bodies) if snake not in foes]
    for place, foe in enumerate(foes):
        if min(moves_between(head, match.bodies[foe][0]) for head in own) > NEAR:
            probs[place] = np.arange(4) == probs[place].argmax()
    joint = (probs[0][:, None, None] * probs[1][:, None] * probs[2]).reshape(-1)
    order = np.argsort(-joint, kind="stable")[:MOST_REPLIES]
    order = order[: max(1, (joint[order] >= LEAST_SHARE).sum())]
    return np.stack([order // 16, order // 4 % 4, order % 4], 1), joint[order]


def dead_end_losses(root, own):
    """The length [3, 4] that each action of each own snake loses in a dead end; 0 if it is none."""
    owner = root.board[0] - 1
    on_body = (owner >= 0) & (owner < SNAKES)
    waits = np.where(on_body, root.length[0][owner % SNAKES] - (root.turn[0] - root.entered[0][:CELLS]), 0).tolist()
    snakes = np.stack([root.head[0, own], root.length[0, own]], 1).tolist()
    dead = [[is_dead_end(waits, head, length, action) for action in range(4)] for head, length in snakes]
    return np.where(dead, root.length[0, own, None] - START_LENGTH, 0)


def deviations(ranked):
    """Joint actions [N, D, 3] from ranked [N, 3, 3]: the best of all; then each snake's second and third."""
    found = np.repeat(ranked[:, None, :, 0], DEVIATIONS, 1)
    for snake in range(TEAM):
        found[:, 1 + 2 * snake : 3 + 2 * snake, snake] = ranked[:, snake, 1:]
    return found


def play_replies(root, candidates, replies, shares, keys, own):
    """The worth [C] of joint actions [C, 3] of the own team, over the replies [R, 3] of the foes and their shares."""
    sims, growth = replied(root, candidates, replies, keys, own)
    worth = growth + DISCOUNT * promised(sims, own)
    return (worth.reshape(len(candidates), -1) * shares).sum(1)


def play_twice(root, candidates, replies, shares, keys, own):
    """The same with a second turn, on which the own team chooses again and the foes play their likeliest moves."""
    sims, growth = replied(root, candidates, replies, keys, own)
    log_probs = board_log_probs(sims, *forward(sims))
    prior = PRIOR * log_probs[:, own]
    moves = deviations(np.argsort(-prior, axis=-1, kind="stable")[..., :3])  # [N, D, 3]
    copies = sims.repeated(DEVIATIONS, np.repeat(sims.keys, DEVIATIONS))
    actions = np.repeat(log_probs.argmax(-1), DEVIATIONS, 0)
    actions[:, own] = moves.reshape(-1, TEAM)
    worth = lead(copies.play_turn(actions), own) + DISCOUNT * promised(copies, own)
    worth = worth.reshape(-1, DEVIATIONS) + np.take_along_axis(prior, moves.swapaxes(1, 2), -1).sum(1)
    worth = growth + DISCOUNT * worth.max(1) * ~sims.over
    return (worth.reshape(len(candidates), -1) * shares).sum(1)


def replied(root, candidates, replies, keys, own):
    """Copies of the match after each of the joint actions [C, 3] and of the replies, and the lead won on the way."""
    copies = len(candidates) * len(replies)
    sims = root.repeated(copies, np.tile(np.array(keys, np.uint64), len(candidates)))
    actions = np.empty((copies, SNAKES), np.intp)
    actions[:, TEAM - own.start : 2 * TEAM - own.start] = np.tile(replies, (len(candidates), 1))
    actions[:, own] = np.repeat(candidates, len(replies), 0)
    return sims, lead(sims.play_turn(actions), own)


def lead(growth, own):
    """What the own team has grown more than the foes [N]."""
    mine = growth[:, own].sum(1)
    return mine - FOES * (growth.sum(1) - mine)


def promised(sims, own):
    """The lead [N] that the own values promise, or that the likeliest moves of all snakes win on the next turns."""
    if len(LAYERS[-1][1]) > 4:
        return LEAF * forward(sims, own)[0][..., 4].sum(1) * ~sims.over
    later, won = sims.repeated(1, sims.keys), 0.0
    for turn in range(PLAYED_ON):
        moves = board_log_probs(later, *forward(later)).argmax(-1)
        won = won + DISCOUNT**turn * lead(later.play_turn(moves), own)
    return won * ~sims.over


def forward(sims, snakes=slice(None)):
    """Logits of local actions, and the value if there is one, [N, S, 4 or 5]; and orientations [N, S]."""
    obs, orientations = BATCHED[ENCODE.__name__](sims, SNAKE[snakes])
    obs = obs.reshape(*orientations.shape, -1)
    (weight, bias), rest = LAYERS[0], LAYERS[1:]
    if len(weight) < CELLS:
        hidden = obs @ weight
    else:  # most of the board is empty, and what a snake sees is nearly the same in all copies
        hidden = np.empty((*obs.shape[:2], len(bias)), np.float32)
        for snake in range(obs.shape[1]):
            used = np.flatnonzero(obs[:, snake].any(0))
            np.matmul(obs[:, snake, used], weight[used], out=hidden[:, snake])
    hidden = (hidden + bias).reshape(-1, len(bias))
    for weight, bias in rest:
        hidden = np.maximum(hidden, 0) @ weight + bias
    return hidden.reshape(*obs.shape[:2], -1), orientations


def board_log_probs(sims, logits, orientations):
    """Log-probabilities [N, 6, 4] of the actions on the board, without the reversal."""
    board = np.take_along_axis(logits, LOCAL_ACTIONS[orientations], -1).astype(np.float64)
    np.put_along_axis(board, sims.direction[..., None] ^ 1, -1e9, -1)
    board -= board.max(-1, keepdims=True)
    return board - np.log(np.exp(board).sum(-1, keepdims=True))


def use_one_thread():
    """Let the products of an OpenBLAS that is already loaded run in one thread, as the environment asks of a new one.

    With two threads on a busy machine one of them spins until the other is run: one call in 300 took 300 ms.
    """
    names = [f"{name}openblas_set_num_threads{end}" for name in ("", "scipy_") for end in ("", "64_")]
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[-1].strip() for line in maps if "openblas" in line}
        for library in map(ctypes.CDLL, paths):
            for name in names:
                if hasattr(library, name):
                    getattr(library, name)(1)
    except Exception:  # another system or another BLAS
        pass


def warm_up():
    """Plan in a made-up position, to measure the time of a turn before the first move is asked for."""
    use_one_thread()
    bodies = [[COLUMNS * row + column for column in (6, 5, 4)] for row in range(0, 2 * SNAKES, 2)]
    bodies = [[cell % CELLS + 10 * (cell >= CELLS) for cell in body] for body in bodies]
    try:
        match = Match(0, bodies, [RIGHT] * SNAKES, [1, 2, 3, 41, 42])
        for _ in range(3):
            plan(match, 0, FoeModels(0), Clock(time.perf_counter() + 0.05))
    except Exception as error:
        tell(PLANNING_FAILS, error)
