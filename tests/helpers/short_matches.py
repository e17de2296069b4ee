"""Trainings in tests save CPU time where few tests look. Evaluations play the first turns of their matches only: a
whole match takes 0.17 s of a core, a third of a small training. The learning curve has a quarter of its pixels. Matches
of a training are at different turns without being played up to there."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from arena.rules import ENTERED, PLACES, TURN, TURNS
from marl.pictures import canvas, learning_curve
from marl.rollout.rollout import Rollout
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
        staggered_at_once(),
    ):
        yield


def staggered_at_once() -> AbstractContextManager[Any]:
    """A patch: trainings of this process find their matches at different turns without playing them up to there, which
    takes 0.1 to 0.3 s of a core, up to half of a small training. On a GPU they are played: by a graph of their own."""
    play_up_to_there = Rollout.start

    def start(rollout: Rollout, *arguments: Any) -> None:
        arena = rollout.arena
        if arena.device.type != "cpu":
            play_up_to_there(rollout, *arguments)
            return
        rollout._is_observed = False
        arena.start()
        rollout._assign_opponents()
        turns = (TURNS - 1 - rollout._stagger_at)[:, None].to(arena.state.dtype)
        arena.state[:, TURN : TURN + 1] += turns
        arena.state[:, ENTERED : ENTERED + PLACES] += turns  # of bytes: modulo 256, as a match counts

    return mock.patch.object(Rollout, "start", start)
