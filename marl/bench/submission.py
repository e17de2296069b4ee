"""The speed of a submission that answers at once, red in every match: what sandbox and channel cost per turn."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import arena
from arena import rules
from marl.bench.timing import Row, best_rate
from marl.errors import UserError
from opponents.sandbox.process import why_not_sandboxed
from opponents.submission import Submission, SubmissionOptions

MATCHES, WORKERS = 8, 1
# It opens a file, as a cost of a system call with a filter.
PLAYS = """
import numpy
def my_controller(observation, action_space, is_act_continuous):
    open("/dev/null").close()
    return [[0, 0, 0, 1]]
"""


class SubmissionBench:
    """The rows of `bench submission`; each is measured when it is requested."""

    def __init__(
        self, device: str | None, matches: list[int] | None, threads: list[int] | None, seconds: float
    ) -> None:
        if device == "cuda":
            raise UserError("bench submission: submissions compute on the CPU; leave --device out")
        self._matches, self._workers, self._seconds = matches or [MATCHES], threads or [WORKERS], seconds
        self._moves: dict[str, float] = {}

    def facts(self) -> dict[str, Any]:
        """Microseconds of one snake's move, with the step."""
        return {"microseconds_per_move": self._moves}

    def rows(self) -> Iterator[Row]:
        reason = why_not_sandboxed()
        if reason is not None:
            raise UserError(f"bench submission: this system cannot sandbox: {reason}")
        for matches in self._matches:
            for workers in self._workers:
                for uncaged in (False, True):
                    what = "uncaged submission" if uncaged else "submission in its sandbox"
                    rate = matches * _measured(matches, SubmissionOptions(uncaged, workers), self._seconds)
                    self._moves[f"{what}, {matches} matches, {workers} at a time"] = round(1e6 / rate / rules.TEAM, 1)
                    yield Row("cpu", matches, workers, f"{what} + step", rate)


def _measured(matches: int, options: SubmissionOptions, seconds: float) -> float:
    """Turns of all matches per second."""
    batch = arena.BatchArena(matches, seed=1)
    batch.start()
    seats = [match * rules.SNAKES + snake for match in range(matches) for snake in range(rules.TEAM)]
    with tempfile.TemporaryDirectory(prefix="snakes_submission_") as folder:
        path = Path(folder, "submission.py")
        path.write_text(PLAYS, "utf-8")
        with Submission(path, options=options) as submission:
            red = torch.tensor(seats, dtype=torch.int32)
            submission.begin(batch, red)
            return best_rate(_turns(submission, batch, red), 1, seconds)


def _turns(submission: Submission, batch: arena.BatchArena, seats: torch.Tensor) -> Callable[[int], None]:
    moves = torch.zeros(batch.matches, rules.SNAKES, dtype=torch.int8)
    begin = batch.state.clone()

    def turns(count: int) -> None:
        for _ in range(count):
            submission.act(batch, seats, moves)
            batch.play_turn(moves)
            batch.state.copy_(begin)  # the same turn again: new matches would have new processes

    return turns
