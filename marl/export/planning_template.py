"""Planning for the submission: appended to submission_template.py by `export --jidi DIR --plan MS`. Needs only numpy.

The planner of marl/planning/planner.py, for one match and with a clock: stage 1 gives a value to every action of every
own snake, stage 2 compares all combinations of their two best actions. Rules and encoders are those of the arena,
vectorised over N copies of the match; draws are those of arena/rng.py, so that a plan can be compared with the arena's.
"""

import ctypes
import time

import numpy as np

from marl.export.simulation_template import (
    BATCHED,
    BOARD_ACTIONS,
    LOCAL_ACTIONS,
    SLOT_ACTION,
    Simulation,
    bits,
    match_key,
)  # fmt: skip
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

HORIZON = 4  # turns of a rollout
DISCOUNT, FOES, PRIOR, LEAF, DEAD_END = 0.97, 0.6, 0.1, 1 / 1.6, 1.0  # see marl/planning/planner.py
CANDIDATES = 2**TEAM  # of each stage
COMBINATIONS = np.stack(np.meshgrid(*[[0, 1]] * TEAM, indexing="ij"), -1).reshape(-1, TEAM)
MOST_ROLLOUTS = 64  # of a stage
MARGIN, LEAST_MARGIN = 0.25, 0.002  # of the time of a call, and in seconds: left unused
FADING = 0.5  # of a slow turn, with every turn after it
PLAN_SEED = 0x706C616E << 31
PLANNING_FAILS = "planning fails; the policy plays alone"

choose_by_policy = choose


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
            plans[team] = plan(match, team, Clock(deadline))[0]
        except Exception as error:  # the policy's move is there
            tell(PLANNING_FAILS, error)
    return move if plans[team] is None else plans[team][snake % TEAM]


class Clock:
    """Fits rollouts into the time until a deadline (seconds of time.perf_counter)."""

    turn_seconds = 0.001  # of one rollout of all candidates; measured, shared by all clocks
    slow_turn = 0.0  # seconds of a slow turn of all rollouts: on a core with other work the next one may take as long

    def __init__(self, deadline):
        self.deadline = self.stage_end = deadline
        self.began = time.perf_counter()

    def fitting(self, share):
        """The number of rollouts that fit into a share of the time left, for a stage; 0 if not even one turn does."""
        now = time.perf_counter()
        whole = self.deadline - now
        left = share * whole
        self.stage_end = now + left
        if left < Clock.turn_seconds or whole < Clock.slow_turn:
            Clock.slow_turn *= FADING
            if left > 0:  # a few slow turns must not end planning for good
                Clock.turn_seconds = min(Clock.turn_seconds, max(left, 0.7 * Clock.turn_seconds))
            return 0
        return max(1, min(MOST_ROLLOUTS, int(left / (HORIZON * Clock.turn_seconds))))

    def start(self):
        """A turn begins."""
        self.began = time.perf_counter()

    def next_fits(self, rollouts):
        """Whether one more turn like those before fits into the stage, and a slow one into the time of the call."""
        now = time.perf_counter()
        turn = now - self.began
        # A turn during which the machine did something else says little.
        Clock.turn_seconds += 0.3 * (min(turn / rollouts, 2 * Clock.turn_seconds) - Clock.turn_seconds)
        Clock.slow_turn = max(turn, FADING * Clock.slow_turn)
        self.began = now
        expected = now + rollouts * Clock.turn_seconds
        return expected < self.stage_end and now + Clock.slow_turn < self.deadline


def plan(match, team, clock, rollouts=None, number=0, seed=PLAN_SEED):
    """Moves of a team (None without time), values [3, 4] of all its actions, and the rollouts of both stages.

    With `rollouts` each stage plays this number of them and does not read the clock. `number` is that of the match.
    """
    own = slice(team * TEAM, team * TEAM + TEAM)
    root = Simulation([match])
    outputs = forward(root)
    losses = dead_end_losses(root, own, clock)
    if losses is None:
        return None, None, (0, 0)
    prior = PRIOR * board_log_probs(root, *outputs)[0, own] - DEAD_END * losses
    ranked = np.argsort(-prior, axis=-1, kind="stable")[:, :3]  # legal actions, best first
    stage = 2 * (number * TURNS + match.turn)
    stride = rollouts or MOST_ROLLOUTS

    candidates = np.repeat(ranked[None, :, 0], CANDIDATES, 0)
    for snake in range(TEAM):
        for other in (1, 2):
            candidates[2 * snake + other, snake] = ranked[snake, other]
    first = rollouts or clock.fitting(0.5)
    if not first:
        return None, None, (0, 0)
    keys = [match_key(seed, stage * stride + rollout) for rollout in range(first)]
    worth = play_out(root, outputs, candidates, own, keys, clock)
    values = np.full((TEAM, 4), -np.inf)
    for snake in range(TEAM):
        values[snake, ranked[snake, 0]] = worth[0]
        values[snake, ranked[snake, 1:]] = worth[1 + 2 * snake : 3 + 2 * snake]
    values += prior

    best = np.argsort(-values, axis=-1, kind="stable")[:, :2]
    second = rollouts or clock.fitting(1.0)
    if not second:
        return best[:, 0].tolist(), values, (first, 0)
    combinations = best[np.arange(TEAM), COMBINATIONS]  # [C, 3]
    keys = [match_key(seed, (stage + 1) * stride + rollout) for rollout in range(second)]
    worth = play_out(root, outputs, combinations, own, keys, clock)
    worth += prior[np.arange(TEAM), combinations].sum(1)
    return combinations[worth.argmax()].tolist(), values, (first, second)


def dead_end_losses(root, own, clock=None):
    """The length [3, 4] that each action of each own snake loses in a dead end; 0 if it is none. None without time."""
    owner = root.board[0] - 1
    on_body = (owner >= 0) & (owner < SNAKES)
    waits = np.where(on_body, root.length[0][owner % SNAKES] - (root.turn[0] - root.entered[0][:CELLS]), 0).tolist()
    snakes = np.stack([root.head[0, own], root.length[0, own]], 1).tolist()
    dead = np.zeros((TEAM, 4), bool)
    for snake, (head, length) in enumerate(snakes):
        if clock and time.perf_counter() > clock.deadline:
            return None
        dead[snake] = [is_dead_end(waits, head, length, action) for action in range(4)]
    return np.where(dead, root.length[0, own, None] - START_LENGTH, 0)


def play_out(root, outputs, candidates, own, keys, clock):
    """Mean worth [C] of the first actions [C, 3] of the own team; one rollout for each key.

    The clock ends all rollouts early: the value head then judges the positions reached.
    """
    if clock:
        clock.start()
    sims = root.repeated(CANDIDATES * len(keys), np.tile(np.array(keys, np.uint64), CANDIDATES))
    logits, orientations = (np.repeat(each, len(sims.turn), 0) for each in outputs)
    worth, discount = np.zeros(len(sims.turn)), 1.0
    for turn in range(HORIZON):
        actions = draw_actions(sims, logits, orientations)
        if turn == 0:
            actions[:, own] = np.repeat(candidates, len(keys), 0)
        growth = sims.play_turn(actions)
        mine = growth[:, own].sum(1)
        worth += discount * (mine - FOES * (growth.sum(1) - mine))
        discount *= DISCOUNT
        logits, orientations = forward(sims, slice(None) if turn + 1 < HORIZON else own)
        if clock and not clock.next_fits(len(keys)):
            break
    if logits.shape[-1] > 4:
        values = logits[:, own if logits.shape[1] == SNAKES else slice(None), 4]
        worth += discount * LEAF * values.sum(1) * ~sims.over
    return worth.reshape(CANDIDATES, -1).mean(1)


def forward(sims, snakes=slice(None)):
    """Logits of local actions, and the value if there is one, [N, 6, 4 or 5]; and orientations [N, 6]."""
    obs, orientations = BATCHED[ENCODE.__name__](sims)
    obs = obs.reshape(len(sims.turn), SNAKES, -1)[:, snakes]
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
    return hidden.reshape(*obs.shape[:2], -1), orientations[:, snakes]


def board_log_probs(sims, logits, orientations):
    """Log-probabilities [N, 6, 4] of the actions on the board, without the reversal."""
    board = np.take_along_axis(logits, LOCAL_ACTIONS[orientations], -1).astype(np.float64)
    np.put_along_axis(board, sims.direction[..., None] ^ 1, -1e9, -1)
    board -= board.max(-1, keepdims=True)
    return board - np.log(np.exp(board).sum(-1, keepdims=True))


def draw_actions(sims, logits, orientations):
    """Actions [N, 6] on the board, drawn from the policy; never the reversal."""
    masked = np.take_along_axis(LOCAL_ACTIONS[orientations], sims.direction[..., None], -1) ^ 1
    logits = logits[..., :4].astype(np.float64)
    np.put_along_axis(logits, masked, -np.inf, -1)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    drawn = bits(sims.stream[:, None], SLOT_ACTION + np.arange(SNAKES)) / 4294967296.0
    passed = drawn[..., None] * shares.sum(-1, keepdims=True) >= shares.cumsum(-1)
    local = passed.sum(-1)
    local = np.where((local > 3) | (local == masked[..., 0]), masked[..., 0] ^ 1, local)
    return BOARD_ACTIONS[orientations, local]


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
            plan(match, 0, Clock(time.perf_counter() + 0.05))
    except Exception as error:
        tell(PLANNING_FAILS, error)
