"""The players: scripted opponents, Python functions, policies and submissions, behind one interface.

player = find("level3:0.2")        # level3, with 20 % random moves
player.begin(arena, seats)         # once per batch, before its first turn
player.act(arena, seats, moves)    # every turn
"""

import difflib
import json
import operator
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import board_encoder
from arena.errors import ArenaError
from arena.jidi import jidi_observation
from arena.match_dict import to_dict
from arena.rules import OVER, SNAKES
from opponents import field, loops
from opponents.plan_prefix import plans
from opponents.probes import PROBES
from opponents.scripted import SCRIPTED
from opponents.submission import SANDBOXED, Submission, SubmissionOptions

SUBMISSION = "submission.py"
GROUPS = ("probes", "odd", field.DEVELOPMENT, field.HELD_OUT)  # each stands for several; odd: the probes' former name
LOADERS = "snakes_3v3.loaders"  # entry points, in pyproject.toml: functions that load a trained team by name or path
CHAMPIONS = Path(__file__).with_name("champions")  # trained teams: NAME.safetensors, and NAME.json about it


class Player(Protocol):
    """Moves the three snakes of a team in every match of a batch."""

    name: str

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Prepare for the first turn of a batch. seats [N] int32: match * 6 + snake, three per match, in order."""

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves of the seats into moves [B, 6] int8; moves in matches that are over have no effect."""

    def close(self) -> None:
        """Free what the player holds: processes, memory."""

    # A player may have bind_turn(arena, seats, moves), called after `begin`: `act` as calls without arguments. On a CPU
    # compiled loops for arena.backends.chain, for one core; on a GPU calls that a CUDA graph can record. An empty tuple
    # if there are none.


Loader = Callable[[str], Player]


class Scripted:
    """A scripted opponent by its name, with a fraction `noise` of random moves; runs on the arena's device."""

    def __init__(self, name: str, noise: float = 0.0) -> None:
        function = SCRIPTED.get(name) or PROBES.get(name)
        if function is None:
            raise _unknown(name)
        if not 0 <= noise <= 1:
            raise ArenaError(f"noise of {name} is {noise}; allowed: 0 to 1, the fraction of random moves")
        self.name = f"{name}:{noise:g}" if noise else name
        self._function = function
        self._noise = noise

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Nothing to prepare: the moves depend on the match alone."""

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves of the seats into moves [B, 6]."""
        loops.act(self._function, arena, seats, moves, self._noise)

    def bind(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> Callable[[], None]:
        """A call without arguments that does the same as `act`; a CUDA graph can record it."""
        return loops.bind(self._function, arena, seats, moves, self._noise)

    def bind_turn(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> tuple[Callable[[], None], ...]:
        """The same for a compiled chain, if Numba has one thread, or for a CUDA graph."""
        return (self.bind(arena, seats, moves),)

    def close(self) -> None:
        """Nothing to free."""


class Function:
    """A Python function (observation, snake) -> move, with the competition's observation dictionary of one snake."""

    def __init__(self, function: Callable[[dict[Any, Any], int], int], name: str | None = None) -> None:
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._directions: dict[int, list[int]] = {}

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Forget the directions of the last batch."""
        self._directions = {}

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Ask the function for every seat and write its moves into moves [B, 6]."""
        rows = arena.state.cpu().numpy()
        chosen = np.zeros(len(seats), np.int8)
        shown, match, before = -1, {}, None
        for i, seat in enumerate(seats.tolist()):
            b, snake = divmod(seat, SNAKES)
            if rows[b, OVER]:
                continue
            if b != shown:
                shown, match = b, to_dict(rows[b])
                # The competition shows directions one turn late, and none on the first turn.
                before = self._directions.get(b) if match["turn"] else None
                self._directions[b] = match["directions"]
            chosen[i] = _checked(self._function(jidi_observation(match, snake, before), snake), self.name)
        _write(moves, seats, chosen)

    def close(self) -> None:
        """Nothing to free."""


class Policy:
    """An object with act(observation) or predict(observation), as for PettingZoo, or a function of an observation.

    It gets the encoder row [W] of one snake and returns its move; with `batched` the rows [N, W] of all snakes of all
    matches, as a numpy array, and returns N moves. Its attribute `observation` names the encoder (default "features").
    If the answer is a tuple, as from predict in some libraries, its first entry holds the moves.
    """

    def __init__(self, policy: Any, name: str | None = None, batched: bool = False) -> None:
        self._choose = getattr(policy, "act", None) or getattr(policy, "predict", None)
        if self._choose is None and callable(policy):
            self._choose = policy
        if self._choose is None:
            raise ArenaError(f"{type(policy).__name__} has neither act(observation) nor predict(observation)")
        self.name = name or getattr(policy, "name", type(policy).__name__)
        self._encoder = board_encoder(getattr(policy, "observation", "features")).name
        self._batched = batched

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Nothing to prepare."""

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Ask the policy for every seat and write its moves into moves [B, 6]."""
        rows = arena.observe(self._encoder, seats).cpu().numpy()
        if self._batched:
            _write(moves, seats, self._checked_batch(self._ask(rows), len(rows)))
            return
        over = arena.state[:, OVER].tolist()
        chosen = np.zeros(len(seats), np.int8)
        for i, seat in enumerate(seats.tolist()):
            if not over[seat // SNAKES]:
                chosen[i] = _checked(self._ask(rows[i]), self.name)
        _write(moves, seats, chosen)

    def _ask(self, observation: np.ndarray) -> Any:
        answer = self._choose(observation)
        return answer[0] if isinstance(answer, tuple) else answer

    def _checked_batch(self, answer: Any, count: int) -> np.ndarray:
        chosen = np.asarray(answer.cpu() if isinstance(answer, torch.Tensor) else answer)
        if chosen.shape != (count,) or chosen.dtype.kind not in "iu":
            raise ArenaError(f"{self.name} answered {chosen.dtype} {list(chosen.shape)}; need {count} whole numbers")
        if chosen.min() < 0 or chosen.max() > 3:
            raise ArenaError(f"{self.name} answered moves outside 0 up, 1 down, 2 left, 3 right")
        return chosen.astype(np.int8)

    def close(self) -> None:
        """Nothing to free."""


def find(name: str, loader: Loader | None = None, submissions: SubmissionOptions = SANDBOXED) -> Player:
    """The player of this name: a scripted one, `NAME:NOISE`, a submission, or what `loader` finds.

    The default loader is the one that the installed project registers; it knows champions, runs and checkpoints.
    """
    if is_scripted(name):
        return scripted(name)
    if champion(name) is not None or plans(name):
        load = loader or _registered_loader()
        if load is None:
            raise ArenaError(f"{name} is a trained team; without an installed project, `find` needs a loader for it")
        return load(name)
    if not os.path.exists(name):
        raise _unknown(name)
    if is_submission(name):
        path = name if name.endswith(".py") else os.path.join(name, SUBMISSION)
        return Submission(path, options=submissions)
    load = loader or _registered_loader()
    if load is None:
        raise ArenaError(f"{name}: a folder or file without a {SUBMISSION}; nothing here can load a player from it")
    return load(name)


def scripted(name: str) -> Scripted:
    """The scripted player of a name, with or without noise."""
    plain, colon, noise = name.partition(":")
    return Scripted(plain, _fraction(name, noise) if colon else 0.0)


def _registered_loader() -> Loader | None:
    """The loader of the installed project; None if it is not installed."""
    return next((point.load() for point in metadata.entry_points(group=LOADERS)), None)


def champion(name: str) -> Path | None:
    """The snapshot file of a trained team that comes with the program, or None."""
    if os.path.basename(name) != name:
        return None
    paths = (folder / f"{name}.safetensors" for folder in (CHAMPIONS, field.SNAPSHOTS))
    return next((path for path in paths if path.is_file()), None)


def is_scripted(name: str) -> bool:
    """Whether a name, with or without noise, is that of a scripted player."""
    plain = name.partition(":")[0]
    return plain in SCRIPTED or plain in PROBES


def is_submission(name: str) -> bool:
    """Whether a name that is no shipped team's is the path of a submission.py, or of its folder."""
    return name.endswith(".py") or os.path.isfile(os.path.join(name, SUBMISSION))


def probe_listing() -> list[tuple[str, str]]:
    """The probes with one line about how each plays."""
    return _described(PROBES)


def listing() -> list[tuple[str, str]]:
    """Every named player but the probes and the field, with one line about how it plays."""
    ladder = _described(SCRIPTED)
    cards = ((card.stem, json.loads(card.read_text("utf-8"))["about"]) for card in sorted(CHAMPIONS.glob("*.json")))
    return [*ladder, *cards]


def _described(table: dict[str, Callable[..., int]]) -> list[tuple[str, str]]:
    return [(name, (function.__doc__ or "").partition("\n")[0]) for name, function in table.items()]


def _unknown(name: str) -> ArenaError:
    if name in GROUPS:
        return ArenaError(f"{name!r} is a group of players, for league and eval --away; eval --list names its players")
    names = [name for name, _ in listing()]
    close = difflib.get_close_matches(name.partition(":")[0], [*names, *PROBES, *dict(field.listing())], n=1)
    guess = f", did you mean {close[0]}?" if close else ""
    known = f"{', '.join(names)}, a probe or team of the field (eval --list)"
    return ArenaError(f"unknown player {name!r}{guess}; known: {known}, or a path to a {SUBMISSION}, run or checkpoint")


def _fraction(name: str, noise: str) -> float:
    try:
        return float(noise)
    except ValueError:
        raise ArenaError(f"player {name!r}: {noise!r} is no fraction of random moves; need one like 0.2") from None


def _checked(answer: Any, name: str) -> int:
    try:
        move = operator.index(answer)
    except TypeError:
        move = -1
    if not 0 <= move <= 3:
        raise ArenaError(f"{name} answered {answer!r}; a move is 0 up, 1 down, 2 left or 3 right")
    return move


def _write(moves: torch.Tensor, seats: torch.Tensor, chosen: np.ndarray) -> None:
    moves.view(-1)[seats.long()] = torch.from_numpy(chosen).to(moves.device)
