"""Trainings in tests save CPU time where few tests look. Evaluations play the first turns of their matches only: a
whole match takes 0.17 s of a core, a third of a small training. Matches are not played up to the turns at which a
training begins with them, another sixth. The learning curve has a quarter of its pixels."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from arena.rules import TURN, TURNS
from marl.pictures import canvas, learning_curve
from marl.rollout import rollout
from marl.rollout.rollout import Policy, Rollout
from opponents import match

SHORT = 20  # turns
_whole_start = Rollout.start


def _start(self: Rollout, policy: Policy | None = None, records: bool = False) -> None:
    """In place of Rollout.start: after one turn the matches are taken to be at the turns to which it plays them."""
    with mock.patch.object(rollout, "TURNS", 1):
        _whole_start(self, policy, records)
    self.arena.state[:, TURN] = TURNS - 1 - self._stagger_at


@contextmanager
def short_matches(words: Sequence[str]) -> Iterator[None]:
    """For the command line of these words, if it trains; other commands play whole matches."""
    if [*words[:1]] != ["train"]:
        yield
        return
    with (
        mock.patch.object(match, "TURNS", SHORT),
        mock.patch.object(Rollout, "start", _start),
        mock.patch.object(canvas, "SCALE", 1),
        mock.patch.object(learning_curve, "SCALE", 1),
    ):
        yield
