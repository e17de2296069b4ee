"""Evaluations of trainings in tests play the first turns of their matches only. A whole match takes 0.17 s of a core,
a third of a small training; hundreds of trainings need an evaluation, and few tests look at its numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from opponents import match

SHORT = 20  # turns


@contextmanager
def short_matches(words: Sequence[str]) -> Iterator[None]:
    """For the command line of these words, if it trains; other commands play whole matches."""
    turns = SHORT if words[:1] in (["train"], ("train",)) else match.TURNS
    with mock.patch.object(match, "TURNS", turns):
        yield
