"""The game as PettingZoo environments: parallel_env() for all six agents at once, env() for one agent after the other.

This file holds no rules: a turn is one call of the compiled loops, the rest is spaces and dictionaries. A death is an
event in the infos, never a termination: snakes respawn, so all six agents live until the match ends. The end by the
rules (200 turns, a full board, no room to respawn) is a termination; `max_cycles` below 200 is a truncation.
"""

import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from arena import match_dict
from arena.backends import cpu
from arena.backends.encode import cpu_loop
from arena.backends.loops import specialise
from arena.encoder_check import check_encoder
from arena.encoders import ENCODERS, board_encoder
from arena.errors import ArenaError, whole_number
from arena.jit import announced, njit
from arena.render.ansi import ansi
from arena.rules import (
    BOARD,
    CELLS,
    DIRECTION,
    ENTERED,
    LENGTH,
    MATCH_BYTES,
    OVER,
    SNAKES,
    START_LENGTH,
    TURN,
    TURNS,
)
from arena.snake_names import AGENTS

RENDER_MODES = ("human", "rgb_array", "ansi")
MOVE_MEANINGS = "0 up, 1 down, 2 left, 3 right"
_MOVE_BYTES = bytes(range(4))
_EVERYONE, _NO_ONE = dict.fromkeys(AGENTS, True), dict.fromkeys(AGENTS, False)

# Layout of the global state(): everything that the next turn depends on, except the random numbers.
S_BOARD = 0  # [200] 0 free, 1 + s for snake s, 7 bean
S_WAIT = CELLS  # [200] body cells: turns until the cell is free, 1 for a tail, the length for a head; other cells: 0
S_DIRECTION = 2 * CELLS  # [6] stored directions
S_LENGTH = S_DIRECTION + SNAKES  # [6]
S_TURN = S_LENGTH + SNAKES  # turns already played
S_WIDTH = S_TURN + 1

# All possible infos, by the code of code_events: length, + 256 if the snake ate, + 512 if it died. Copying a dictionary
# is cheaper than building one.
_INFOS = [
    {"ate": bool(ate), "died": bool(died), "length": length, "score": length - START_LENGTH}
    for died in range(2)
    for ate in range(2)
    for length in range(256)
]


@njit
def code_events(state, ate, died, codes):
    """Write the index into _INFOS of every snake."""
    for snake in range(SNAKES):
        codes[snake] = int(state[0, LENGTH + snake]) + 256 * int(ate[0, snake]) + 512 * int(died[0, snake])


def encode_seats(state, seats, out):
    """Placeholder for the loop of an encoder."""
    raise NotImplementedError


# One call of compiled code per turn: every further call costs a Python user a twentieth of the speed.
def turn(state, key, actions, ate, died, reward, over, seats, out, codes, play):
    """Play a turn (if `play`), encode all six snakes and code the events."""
    if play:
        cpu.play_serial(state, key, actions, ate, died, reward, over)
    encode_seats(state, seats, out)
    code_events(state, ate, died, codes)


@cache
def _turn_with(encoder: str) -> Any:
    """`turn` compiled for one encoder."""
    loop = cpu_loop(ENCODERS[encoder])
    return njit(specialise(turn, encoder, encode_seats=loop), ENCODERS[encoder].encode)


class SnakesParallelEnv(ParallelEnv[str, np.ndarray, int]):
    """One match of six agents. Match k of a seed is match k of BatchArena(1, seed=seed)."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (PettingZoo's interface)
        "name": "snakes_3v3_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 8,
        "is_parallelizable": True,
    }

    def __init__(self, render_mode: str | None, seed: int | None, observation: str, max_cycles: int) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ArenaError(f"render_mode is {render_mode!r}; allowed: None, {', '.join(RENDER_MODES)}")
        whole_matches = f"a whole number from 1 ({TURNS} = whole matches)"
        self.max_cycles = whole_number(max_cycles, "max_cycles", 1, None, whole_matches)
        encoder = board_encoder(observation)
        check_encoder(encoder)
        self.render_mode = render_mode
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        # Bytes that are always 0 get an upper bound of 1: PettingZoo's tests report an empty range as a mistake.
        high = np.maximum(encoder.high, encoder.low + 1)
        self.observation_spaces = {agent: Box(encoder.low, high, dtype=encoder.dtype) for agent in AGENTS}
        self.action_spaces = {agent: Discrete(4) for agent in AGENTS}
        self.state_space = _state_space()

        # The arrays of a BatchArena with one match. No array is a view of another, so copy.deepcopy copies a match.
        self._state = np.zeros((1, MATCH_BYTES), np.uint8)
        self._state[0, OVER] = 1  # no match has been started
        self._key = np.zeros(1, np.int64)
        self._number = np.zeros(1, np.int64)
        self._ate = np.zeros((1, SNAKES), np.bool_)
        self._died = np.zeros((1, SNAKES), np.bool_)
        self._reward = np.zeros((1, SNAKES), np.int16)
        self._over = np.zeros(1, np.bool_)
        self._codes = np.zeros(SNAKES, np.uint16)
        self._seats = np.arange(SNAKES, dtype=np.int32)
        self._dtype = np.dtype(encoder.dtype)
        self._turn = _turn_with(encoder.name)
        width, dtype = (encoder.width // 8, np.uint64) if encoder.words else (encoder.width, encoder.dtype)
        self._out: np.ndarray = np.zeros((SNAKES, width), dtype)
        self._compiled = False
        self._window: Any = None  # LiveWindow, once it is needed
        self._choose_seed(secrets.randbelow(2**63) if seed is None else seed)

    def observation_space(self, agent: str) -> Box:
        """The bounds of an observation, the same for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """0 up, 1 down, 2 left, 3 right."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start match 0 of a seed; without a seed, the next match of the present one. `options` is not used."""
        if seed is not None:
            self._choose_seed(seed)
        if not self._compiled:
            self._compile()
        self._start(True)
        self._ate[:] = self._died[:] = False
        self._play(bytearray(SNAKES), False)
        self.agents = list(AGENTS)
        if self.render_mode == "human":
            self.render()
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one turn. After the end of a match: five empty dictionaries."""
        if not self.agents:
            self._check_started()
            return {}, {}, {}, {}, {}
        self._play(_checked_moves(actions), True)
        terminated = self._over.item()
        truncated = not terminated and self._state.item(0, TURN) >= self.max_cycles
        if terminated or truncated:
            self.agents = []
        if self.render_mode == "human":
            self.render()
        return (
            self._observations(),
            _by_agent(self._reward.tolist()[0]),
            (_EVERYONE if terminated else _NO_ONE).copy(),
            (_EVERYONE if truncated else _NO_ONE).copy(),
            self._infos(),
        )

    def state(self) -> np.ndarray:
        """The global state of the match [S_WIDTH] uint8 in the layout of the S_ constants; bounds in state_space."""
        self._check_started()
        match = self._state[0]
        view = np.empty(S_WIDTH, np.uint8)
        board = match[BOARD : BOARD + CELLS]
        view[S_BOARD:S_WAIT] = board
        # Free cells and beans read the zero byte before or after the lengths.
        lengths = match[LENGTH - 1 : LENGTH + SNAKES + 1][board]
        waits = lengths - (match[TURN] - match[ENTERED : ENTERED + CELLS])
        view[S_WAIT:S_DIRECTION] = np.where(lengths > 0, waits, 0)
        view[S_DIRECTION:S_LENGTH] = match[DIRECTION : DIRECTION + SNAKES]
        view[S_LENGTH:S_TURN] = match[LENGTH : LENGTH + SNAKES]
        view[S_TURN] = match[TURN]
        return view

    def get_match(self) -> dict[str, Any]:
        """The match as a dictionary, like BatchArena.get_match."""
        self._check_started()
        return match_dict.to_dict(self._state[0])

    def render(self) -> np.ndarray | str | None:
        """The match as a picture (rgb_array), as text (ansi), or in a window (human; reset and step call it then)."""
        if self.render_mode is None:
            gymnasium.logger.warn(f"render() without a render_mode shows nothing; allowed: {', '.join(RENDER_MODES)}")
            return None
        if self.render_mode == "human":
            if self._window is None:
                from arena.render.window_display import LiveWindow

                self._window = LiveWindow(self.metadata["render_fps"])
            return self._window.show(self.get_match())
        if self.render_mode == "ansi":
            return ansi(self.get_match())
        from arena.render.frame import frame  # it brings Pillow

        return frame(self.get_match())

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _choose_seed(self, seed: int) -> None:
        self.seed = whole_number(seed, "seed", allowed="0 to 2**63 - 1")
        self._number[0] = -1  # the next start adds 1: match 0

    def _compile(self) -> None:
        """Load or compile the loops now, so that no turn stalls later. The match is over, so nothing changes."""
        with announced("the rules"):
            self._start(False)
            self._play(bytearray(SNAKES), True)
        self._compiled = True

    def _start(self, start: bool) -> None:
        cpu.start_serial(self._state, self._key, self._number, np.array([start]), self.seed, 1)

    def _play(self, moves: bytearray, play: bool) -> None:
        """Play a turn (if `play`) and encode the match."""
        self._turn(
            self._state,
            self._key,
            np.ndarray((1, SNAKES), np.int8, moves),
            self._ate,
            self._died,
            self._reward,
            self._over,
            self._seats,
            self._out,
            self._codes,
            play,
        )

    def _observations(self) -> dict[str, np.ndarray]:
        return _by_agent(self._out.copy().view(self._dtype))

    def _infos(self) -> dict[str, dict[str, Any]]:
        return _by_agent([_INFOS[code].copy() for code in self._codes.tolist()])

    def _check_started(self) -> None:
        if self._number[0] < 0:
            raise ArenaError("no match has been started; call reset() first")


class _SnakesAecEnv(parallel_to_aec_wrapper):
    """Agents act one after the other. A bad action raises when it is given, not when the turn is played."""

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if not (self.terminations[agent] or self.truncations[agent]):
            _check_move(agent, action)
        super().step(action)


def parallel_env(
    render_mode: str | None = None, seed: int | None = None, observation: str = "features", max_cycles: int = TURNS
) -> ParallelEnv:
    """The environment in which all six agents act at once.

    Without a seed the matches differ from run to run. observation: "features" or "planes" (arena/encoders).
    """
    return SnakesParallelEnv(render_mode, seed, observation, max_cycles)


def env(
    render_mode: str | None = None, seed: int | None = None, observation: str = "features", max_cycles: int = TURNS
) -> AECEnv:
    """The environment in which agents act one after the other. The last action of six plays the turn."""
    return OrderEnforcingWrapper(_SnakesAecEnv(parallel_env(render_mode, seed, observation, max_cycles)))


def _state_space() -> Box:
    high = np.empty(S_WIDTH, np.uint8)
    high[S_BOARD:S_WAIT] = SNAKES + 1
    high[S_WAIT:S_DIRECTION] = CELLS
    high[S_DIRECTION:S_LENGTH] = 3
    high[S_LENGTH:S_TURN] = CELLS
    high[S_TURN] = TURNS
    return Box(np.zeros(S_WIDTH, np.uint8), high, dtype=np.uint8)


def _by_agent(values: Iterable[Any]) -> dict[str, Any]:
    """Six values by agent name. Written out, this is three times as fast as dict(zip(...))."""
    red_0, red_1, red_2, blue_0, blue_1, blue_2 = values
    return {"red_0": red_0, "red_1": red_1, "red_2": red_2, "blue_0": blue_0, "blue_1": blue_1, "blue_2": blue_2}


def _checked_moves(actions: Mapping[str, int]) -> bytearray:
    """The six moves in the order of the snakes. A bytearray accepts every kind of whole number and nothing else."""
    try:
        moves = bytearray([actions[agent] for agent in AGENTS])
        if len(actions) == SNAKES and not moves.translate(None, _MOVE_BYTES):
            return moves
    except (LookupError, TypeError, ValueError):
        pass
    if not isinstance(actions, Mapping):
        raise ArenaError(
            f"actions are {type(actions).__name__}; need a dictionary of agents and moves ({MOVE_MEANINGS})"
        )
    for agent in AGENTS:
        if agent not in actions:
            raise ArenaError(f"action of {agent} is missing; need one of all six ({MOVE_MEANINGS}); nothing was played")
        _check_move(agent, actions[agent])
    unknown = next(agent for agent in actions if agent not in AGENTS)
    raise ArenaError(f"action of unknown agent {unknown!r}; known: {', '.join(AGENTS)}; nothing was played")


def _check_move(agent: str, move: Any) -> None:
    try:
        good = 0 <= index(move) <= 3
    except TypeError:
        good = False
    if not good:
        shown = " ".join(repr(move).split())[:40]
        raise ArenaError(f"action of {agent} is {shown}; allowed: {MOVE_MEANINGS}; nothing was played")
