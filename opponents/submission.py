"""A competition submission as an opponent, in a sandbox and with a time limit for each move.

The sandbox (opponents/sandbox) keeps the submission from the network, from other processes and from all files but its
own folder and Python's packages: see SECURITY.md. With `uncaged=True` it runs with this user's rights instead, under
the limits of time and memory alone.

    with Submission("rival/submission.py") as rival:
        rival.begin(arena, seats)
        rival.act(arena, seats, moves)      # every turn

Each match has a process of its own, so nothing that happens in one match reaches another, and `workers` of them
compute at the same time: results do not depend on how many. If a move takes too long, the process of that match is
stopped, and the match continues with a fresh module. Every match needs the memory of all that the submission loads:
keep batches to some dozens of matches.
"""

import hashlib
import json
import weakref
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from arena import BatchArena, system
from arena.errors import ArenaError, printable
from arena.jidi import FIRST_SNAKE_KEY, jidi_observation
from arena.match_dict import to_dict
from arena.rng import SLOT_SUBMISSION, draw_below
from arena.rules import DIRECTION, OVER, SNAKES, TEAM, TURN
from opponents.sandbox.controller import HELLO, LOADED, MOVES, NO_CONTROLLER
from opponents.sandbox.environment import holds_home
from opponents.sandbox.plain_host import PlainHost, start_host
from opponents.sandbox.process import HOST_SECONDS, Broken, CannotSandbox, Host, MatchProcess, why_not_sandboxed
from opponents.sandbox.side_by_side import WAIT_FACTOR, Expected, Job, available_cores, run_jobs

LIMIT = 10  # problems in a match, then the match is forfeited
HOPELESS = 20  # stopped processes in a row without an answer, then all matches are forfeited
LOAD_SECONDS = 30.0  # CPU time to load the file
LOAD_WAIT_SECONDS = 120.0  # wall time for the same
MATCH_SECONDS = 3600.0  # that a match may wait for all its moves together
KINDS_KEPT = 20  # different problem texts; a submission could produce new ones without end


@dataclass
class _Match:
    """The match in a slot of the batch."""

    key: int | None = None
    turn: int = -1
    directions: list[int] | None = None  # on this turn
    last_directions: list[int] | None = None  # one turn earlier
    problems: int = 0
    waited: float = 0.0  # seconds, for all answers
    process: MatchProcess | None = None  # which has loaded its module


@dataclass
class _Task:
    """The request for moves of one match on one turn."""

    slot: int
    match: _Match
    waiting: list[int]  # snakes that have no move yet
    observation: dict[Any, Any]
    moves: dict[int, int] = field(default_factory=dict)


@dataclass
class MoveTimes:
    """How long the moves of a submission took, in seconds: CPU time if the kernel tells it, else time of waiting."""

    moves: int = 0
    total: float = 0.0
    longest: float = 0.0

    @property
    def mean(self) -> float:
        """Of all moves so far, at least one."""
        return self.total / self.moves

    def add(self, seconds: list[float]) -> None:
        """Count some more moves."""
        self.moves += len(seconds)
        self.total += sum(seconds)
        self.longest = max(self.longest, *seconds, 0.0)


@dataclass(frozen=True)
class SubmissionOptions:
    """How submissions are run."""

    uncaged: bool = False  # with this user's rights, under limits of time and memory alone
    workers: int | None = None  # matches that compute at the same time; None: as many as cores
    notify: Callable[[str], None] | None = None  # gets a line for each submission that runs without a sandbox

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ArenaError(f"workers is {self.workers}; allowed: a whole number from 1")


SANDBOXED = SubmissionOptions()


class Submission:
    """An opponent that plays the moves of a submission.py.

    A missing move is replaced by a random one. After LIMIT missing moves the match is forfeited: it continues with
    random moves and counts as lost. `forfeited` holds the slots whose present match is forfeited.
    """

    def __init__(self, path: str | Path, seconds_per_move: float = 1.0, options: SubmissionOptions = SANDBOXED) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise ArenaError(f"submission {str(path)!r}: there is no such file")
        # `float` only for type checkers, to which no float is a Real.
        if not (isinstance(seconds_per_move, (float, Real)) and 0 < seconds_per_move < 1e6):
            raise ArenaError(f"seconds_per_move is {seconds_per_move!r}; allowed: more than 0")
        if not options.uncaged and (reason := why_not_sandboxed()):
            raise ArenaError(
                f"submission {str(path)!r}: this system cannot sandbox it ({reason}); to run it all the same, with "
                "your rights, give --uncaged"
            )
        if not options.uncaged and holds_home(self.path.parent):
            raise ArenaError(
                f"submission {str(path)!r}: the sandbox shows it its folder, and this one holds your home folder; "
                "move it into a folder of its own"
            )
        self.name = printable(f"{self.path.parent.name}/{self.path.name}")
        if options.uncaged and options.notify is not None:
            limited = "time and memory are limited" if system.HAS_FORK else "only time is limited"
            options.notify(f"{self.name} runs without a sandbox: it can read and change what you can; {limited}")
        self.seconds_per_move = float(seconds_per_move)
        self.forfeited: set[int] = set()
        self.errors = 0  # moves that did not come, and failures to load
        self.move_times = MoveTimes()
        self._problems: Counter[str] = Counter()
        self._matches: dict[int, _Match] = {}
        self._arena: weakref.ref[BatchArena] | None = None
        self._options = options
        self._host: Host | PlainHost | None = None
        self._was_loaded = False
        self._given_up = ""  # why
        self._stopped_in_a_row = 0

    @property
    def workers(self) -> int:
        """Matches that compute at the same time."""
        return self._options.workers or available_cores()

    @property
    def problems(self) -> list[str]:
        """The problems so far: one line for each kind, with its count."""
        return [f"{text} ({count} x)" for text, count in self.problem_counts.items()]

    @property
    def problem_counts(self) -> Counter[str]:
        """How often each kind of problem has occurred so far; a kind begins with the name of the submission."""
        return Counter({f"{self.name}: {text}": count for text, count in self._problems.items()})

    def load(self) -> None:
        """Load the file now, before any match; ArenaError with the cause if that fails."""
        arena = BatchArena(1)
        arena.start()
        self.begin(arena, torch.arange(TEAM, dtype=torch.int32))
        if self._given_up:
            raise ArenaError(f"submission {str(self.path)!r}: cannot be loaded: {' '.join(self._given_up.split())}")

    def twin(self) -> "Submission":
        """The same file as another player, whose matches leave the counts of this one alone."""
        return Submission(self.path, self.seconds_per_move, replace(self._options, notify=None))

    def begin(self, arena: BatchArena, seats: torch.Tensor) -> None:
        """Forget the matches of these seats: new ones have started. ArenaError if the file is no submission."""
        if self._arena is None or self._arena() is not arena:
            self._arena = weakref.ref(arena)
            for match in self._matches.values():
                _end(match)
            self._matches.clear()
            self.forfeited.clear()
        slots = sorted({seat // SNAKES for seat in seats.tolist()})
        for slot in slots:
            self._replace(slot)
        if slots and not self._was_loaded and not self._given_up:
            row = arena.state[slots[0]].cpu().numpy()
            observation = jidi_observation(to_dict(row), 0, None)
            self._ask_once([_Task(slots[0], self._matches[slots[0]], [], observation)])
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
        """End all processes."""
        for match in self._matches.values():
            match.process = None
        if self._host is not None:
            self._host.end()
            self._host = None

    def __enter__(self) -> "Submission":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, tasks: list[_Task]) -> None:
        """Get the moves. A match whose process was stopped gets another one, for the snakes that have no move yet."""
        if tasks and not self._was_loaded and not self._given_up:
            self._ask_once(tasks[:1])  # alone: the others need not try what cannot be loaded
        while tasks := [task for task in tasks if task.waiting and task.slot not in self.forfeited]:
            self._ask_once(tasks)

    def _ask_once(self, tasks: list[_Task]) -> None:
        """Ask all matches side by side; then count what happened in the order of the matches."""
        try:
            host = self._running_host()
        except Broken as error:
            self._give_up(str(error))
            return
        jobs = [Job(partial(self._post, host, task), self._expected(task)) for task in tasks]
        run_jobs(jobs, self.workers)
        for task, job in zip(tasks, jobs, strict=True):
            if not self._given_up:
                self._count(task, job)

    def _running_host(self) -> Host | PlainHost:
        """The host of the processes, started if there is none."""
        if self._host is not None and not self._host.is_alive:
            self.close()
        if self._host is None:
            try:
                self._host = start_host(self.path, not self._options.uncaged)
            except CannotSandbox as error:
                raise Broken(f"this system cannot sandbox it now ({error})") from None
        return self._host

    def _post(self, host: Host | PlainHost, task: _Task) -> MatchProcess:
        """Send the requests of a task, to a new process if the match has none."""
        process = task.match.process
        if process is None:
            process = host.start()
            process.post({"seed": _seed(task.observation)})
        elif trouble := process.trouble():
            raise Broken(trouble)
        if task.waiting:
            snakes = [FIRST_SNAKE_KEY + snake for snake in task.waiting]
            process.post({"snakes": snakes, "observation": task.observation})
        return process

    def _expected(self, task: _Task) -> deque[Expected]:
        answers = []
        if task.match.process is None:
            answers = [Expected(HELLO, HOST_SECONDS, HOST_SECONDS), Expected(LOADED, LOAD_SECONDS, LOAD_WAIT_SECONDS)]
        seconds = self.seconds_per_move
        answers += [Expected(FIRST_SNAKE_KEY + snake, seconds, WAIT_FACTOR * seconds) for snake in task.waiting]
        return deque(answers)

    def _count(self, task: _Task, job: Job) -> None:
        """Take over the answers to a task, its problems, and its process as long as it is in order."""
        answers, seconds = list(job.answers), list(job.seconds)
        task.match.waited += job.waited
        if task.match.process is None:
            loaded, answers, seconds = answers[:2], answers[2:], seconds[2:]
            failure = job.failure if len(loaded) < 2 else loaded[1]
            if isinstance(failure, str):
                self._fail_to_load(task.slot, failure)
                if job.process is not None:
                    job.process.end()
                task.waiting.clear()
                return
            self._was_loaded = True
        self.move_times.add(seconds)
        task.match.process = job.process if job.failure is None else None
        for answer in answers:
            self._stopped_in_a_row = 0
            snake = task.waiting.pop(0)
            if isinstance(answer, int):
                task.moves[snake] = answer
            else:
                self._problem(task, answer)
        if job.failure is not None:
            task.waiting.pop(0)
            self._problem(task, job.failure)
            self._stopped_in_a_row += 1
            if self._stopped_in_a_row == HOPELESS:
                self._give_up(f"stopped {HOPELESS} times in a row without an answer")
        if task.match.waited >= MATCH_SECONDS and task.slot not in self.forfeited:
            self._note(f"forfeits a match after {MATCH_SECONDS:g} s of waiting for its moves")
            self.forfeited.add(task.slot)

    def _replace(self, slot: int) -> _Match:
        """Forget the match in this slot; the record of the new one."""
        if slot in self._matches:
            _end(self._matches[slot])
        self.forfeited.discard(slot)
        match = self._matches[slot] = _Match()
        return match

    def _follow(self, slot: int, row: np.ndarray, key: int) -> _Match:
        """The record of the match in this slot, updated to this turn; a new match gets a new record."""
        match = self._matches.get(slot)
        turn = int(row[TURN])
        if match is None or (match.key is not None and (match.key != key or turn < match.turn)):
            match = self._replace(slot)
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
        self.errors += 1
        task.match.problems += 1
        if task.match.problems == LIMIT:
            self._note(f"forfeits a match after {LIMIT} problems")
            self.forfeited.add(task.slot)

    def _fail_to_load(self, slot: int, reason: str) -> None:
        self.forfeited.add(slot)
        self.errors += 1
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


def _end(match: _Match) -> None:
    if match.process is not None:
        match.process.end()
        match.process = None


def _seed(observation: dict[Any, Any]) -> int:
    """What the submission's own generators are seeded with: nothing but what it sees, so that it learns nothing.

    A number that follows from the match's key would give away the key, and so all beans to come, to a submission that
    tries keys.
    """
    seen = {name: value for name, value in observation.items() if name != "controlled_snake_index"}
    return int.from_bytes(hashlib.sha256(json.dumps(seen).encode()).digest()[:4], "big")


def random_move(row: np.ndarray, key: int, snake: int) -> int:
    """Any move but the reversal."""
    back = int(row[DIRECTION + snake]) ^ 1
    pick = int(draw_below(key, int(row[TURN]), SLOT_SUBMISSION + snake, MOVES - 1))
    return pick if pick < back else pick + 1
