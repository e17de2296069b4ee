"""Trainings in tests save CPU time where few tests look. Evaluations play the first turns of their matches only: a
whole match takes 0.17 s of a core, a third of a small training. The learning curve has a quarter of its pixels."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from marl.pictures import canvas, learning_curve
from opponents import match

SHORT = 20  # turns


@contextmanager
def short_matches(words: Sequence[str]) -> Iterator[None]:
    """For the command line of these words, if it trains; other commands play whole matches."""
    if [*words[:1]] != ["train"]:
        yield
        return
    with (
        mock.patch.object(match, "TURNS", SHORT),
        mock.patch.object(canvas, "SCALE", 1),
        mock.patch.object(learning_curve, "SCALE", 1),
    ):
        yield
