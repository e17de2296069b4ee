"""A competition submission as an opponent, in its own process and with a time limit for each move.

This isolates the arena from mistakes, not from malice: exceptions, endless loops and crashes of a submission cost only
its own matches, but its process runs as the same user, with the same files and the same rights. Run only submissions
that you would run as a program.

    with Submission("rival/submission.py") as rival:
        rival.begin(arena, seats)
        rival.act(arena, seats, moves)      # every turn

All matches of a batch share one process. Each match has its own module of the submission; helper modules beside the
submission are shared. If a move hangs, the process is stopped, and all matches continue with fresh modules. Every match
needs the memory of all that the submission loads: keep batches to some dozens of matches.
"""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from arena import BatchArena
from arena.errors import ArenaError
from arena.jidi import FIRST_SNAKE_KEY, jidi_observation
from arena.match_dict import to_dict
from arena.printable import printable
from arena.rng import SLOT_SUBMISSION, draw_below
from arena.rules import DIRECTION, OVER, SNAKES, TURN
from opponents.submission_worker import LOAD_SECONDS, MOVES, NO_CONTROLLER, Broken, Process

LIMIT = 10  # problems in a match, then the match is forfeited
HOPELESS = 20  # stopped processes in a row, then all matches are forfeited
KINDS_KEPT = 20  # different problem texts; a submission could produce new ones without end


@dataclass
class _Match:
    """The match in a slot of the batch."""

    key: int | None = None
    turn: int = -1
    directions: list[int] | None = None  # on this turn
    last_directions: list[int] | None = None  # one turn earlier
    problems: int = 0
    holder: Process | None = None  # the process that has loaded its module


@dataclass
class _Task:
    """The request for moves of one match on one turn."""

    slot: int
    match: _Match
    waiting: list[int]  # snakes that have no move yet
    observation: dict[Any, Any]
    moves: dict[int, int] = field(default_factory=dict)
    loading: bool = False


class Submission:
    """An opponent that plays the moves of a submission.py.

    A missing move is replaced by a random one. After LIMIT missing moves the match is forfeited: it continues with
    random moves and counts as lost. `forfeited` holds the slots whose present match is forfeited.
    """

    def __init__(self, path: str | Path, seconds_per_move: float = 1.0) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise ArenaError(f"submission {str(path)!r}: there is no such file")
        # `float` only for type checkers, to which no float is a Real.
        if not (isinstance(seconds_per_move, (float, Real)) and 0 < seconds_per_move < 1e6):
            raise ArenaError(f"seconds_per_move is {seconds_per_move!r}; allowed: more than 0")
        self.name = f"{self.path.parent.name}/{self.path.name}"
        self.seconds_per_move = float(seconds_per_move)
        self.forfeited: set[int] = set()
        self._problems: Counter[str] = Counter()
        self._matches: dict[int, _Match] = {}
        self._arena: weakref.ref[BatchArena] | None = None
        self._process: Process | None = None
        self._was_loaded = False
        self._given_up = ""  # why
        self._stopped_in_a_row = 0

    @property
    def problems(self) -> list[str]:
        """The problems so far: one line for each kind, with its count."""
        return [f"{text} ({count} x)" for text, count in self.problem_counts.items()]

    @property
    def problem_counts(self) -> Counter[str]:
        """How often each kind of problem has occurred so far; a kind begins with the name of the submission."""
        return Counter({f"{self.name}: {text}": count for text, count in self._problems.items()})

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Forget the matches of these seats: new ones have started. ArenaError if the file is no submission."""
        if self._arena is None or self._arena() is not arena:
            self._arena = weakref.ref(arena)
            self._matches.clear()
            self.forfeited.clear()
        slots = sorted({seat // SNAKES for seat in seats.tolist()})
        for slot in slots:
            self._matches[slot] = _Match()
            self.forfeited.discard(slot)
        if slots and not self._was_loaded and not self._given_up:
            try:
                process = self._running()
                process.post({"load": slots[0]})
                self._collect(process, _Task(slots[0], self._matches[slots[0]], [], {}))
            except Broken as error:
                self.close()
                self._fail_to_load(slots[0], str(error))
        if self._given_up == NO_CONTROLLER:
            raise ArenaError(f"submission {str(self.path)!r}: {NO_CONTROLLER}")

    def act(self, arena: BatchArena, seats: torch.Tensor, moves: torch.Tensor) -> None:
        """Write the moves for `seats` (int32, match * 6 + snake, seats of a match together) into moves [B, 6] int8."""
        wanted: dict[int, list[int]] = {}
        for seat in seats.tolist():
            wanted.setdefault(seat // SNAKES, []).append(seat % SNAKES)
        slots = torch.tensor(list(wanted), dtype=torch.int64, device=arena.device)
        rows, keys = arena.state[slots].cpu().numpy(), arena.keys[slots].tolist()
        tasks = []
        for (slot, snakes), row, key in zip(wanted.items(), rows, keys, strict=True):
            match = self._follow(slot, row, key)
            if not row[OVER] and slot not in self.forfeited:
                observation = jidi_observation(to_dict(row), snakes[0], match.last_directions)
                tasks.append(_Task(slot, match, list(snakes), observation))
        self._ask(tasks)
        given = {task.slot: task.moves for task in tasks}
        chosen = []
        for (slot, snakes), row, key in zip(wanted.items(), rows, keys, strict=True):
            for snake in snakes:
                move = given.get(slot, {}).get(snake)
                chosen.append((slot, snake, random_move(row, key, snake) if move is None else move))
        table = torch.tensor(chosen, dtype=torch.int64, device=arena.device).view(-1, 3)
        moves[table[:, 0], table[:, 1]] = table[:, 2].to(moves.dtype)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def __enter__(self) -> "Submission":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, tasks: list[_Task]) -> None:
        """Get the moves. All requests are sent before the first answer is read: one by one takes twice as long."""
        while tasks := [task for task in tasks if task.waiting and task.slot not in self.forfeited]:
            try:
                process = self._running()
                for task in tasks:
                    if task.match.holder is not process:
                        process.post({"load": task.slot})
                    snakes = [FIRST_SNAKE_KEY + snake for snake in task.waiting]
                    process.post({"slot": task.slot, "snakes": snakes, "observation": task.observation})
                for task in tasks:
                    self._collect(process, task)
                    if self._given_up:
                        return
            except Broken as error:
                self.close()
                task = next(task for task in tasks if task.waiting)
                if task.loading:
                    self._fail_to_load(task.slot, str(error))
                    continue
                task.waiting.pop(0)
                self._problem(task, str(error))
                self._stopped_in_a_row += 1
                if self._stopped_in_a_row == HOPELESS:
                    self._give_up(f"stopped {HOPELESS} times in a row without an answer")

    def _running(self) -> Process:
        """The process, started if there is none."""
        if self._process is not None and (trouble := self._process.trouble()):
            raise Broken(trouble)
        if self._process is None:
            self._process = Process(self.path, self.seconds_per_move)
        return self._process

    def _collect(self, process: Process, task: _Task) -> None:
        """Read the answers to the requests of a task."""
        if task.match.holder is not process:
            task.loading = True
            failure = process.receive(task.slot, 0, LOAD_SECONDS)
            task.loading = False
            if isinstance(failure, str):
                self._fail_to_load(task.slot, failure)
                task.waiting.clear()
                return
            task.match.holder = process
            self._was_loaded = True
        while task.waiting:
            answer = process.receive(task.slot, FIRST_SNAKE_KEY + task.waiting[0], self.seconds_per_move)
            snake = task.waiting.pop(0)
            self._stopped_in_a_row = 0
            if isinstance(answer, int):
                task.moves[snake] = answer
            else:
                self._problem(task, answer)

    def _follow(self, slot: int, row: np.ndarray, key: int) -> _Match:
        """The record of the match in this slot, updated to this turn; a new match gets a new record."""
        match = self._matches.get(slot)
        turn = int(row[TURN])
        if match is None or (match.key is not None and (match.key != key or turn < match.turn)):
            match = self._matches[slot] = _Match()
            self.forfeited.discard(slot)
        directions = row[DIRECTION : DIRECTION + SNAKES].tolist()
        if turn == 0:
            match.last_directions = None
        elif turn != match.turn:
            # Without a request on the turn before (a match joined in the middle), this turn's directions stand in.
            match.last_directions = match.directions if turn == match.turn + 1 else directions
        match.key, match.turn, match.directions = key, turn, directions
        if self._given_up:
            self.forfeited.add(slot)
        return match

    def _problem(self, task: _Task, text: str) -> None:
        self._note(text)
        task.match.problems += 1
        if task.match.problems == LIMIT:
            self._note(f"forfeits a match after {LIMIT} problems")
            self.forfeited.add(task.slot)

    def _fail_to_load(self, slot: int, reason: str) -> None:
        self.forfeited.add(slot)
        if self._was_loaded:
            self._note(f"cannot be loaded: {reason}")
        elif not self._given_up:
            self._give_up(reason, "cannot be loaded: ")

    def _give_up(self, reason: str, kind: str = "") -> None:
        self._note(f"forfeits all matches: {kind}{reason}")
        self._given_up = reason
        self.forfeited.update(self._matches)
        self.close()

    def _note(self, text: str) -> None:
        # One line, and nothing in it that a terminal would obey.
        line = printable(" ".join(text.split()))
        self._problems[line if line in self._problems or len(self._problems) < KINDS_KEPT else "other problems"] += 1


def random_move(row: np.ndarray, key: int, snake: int) -> int:
    """Any move but the reversal."""
    back = int(row[DIRECTION + snake]) ^ 1
    pick = int(draw_below(key, int(row[TURN]), SLOT_SUBMISSION + snake, MOVES - 1))
    return pick if pick < back else pick + 1
