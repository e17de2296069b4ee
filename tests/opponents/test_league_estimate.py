"""The estimate of a league's time, with a clock that only the players move."""

import pytest
from helpers.submissions import SANDBOXED, controller, written

from opponents.league_estimate import MEASURED_SECONDS, is_slow, league_seconds, seconds_per_match
from opponents.match import TURNS
from opponents.players import Function, scripted
from opponents.submission import Submission, SubmissionOptions


class Clocked:
    """A player whose turns take a known time; the first one, which may compile, another."""

    name = "clocked"

    def __init__(self, first: float, each: float) -> None:
        self.now = 0.0
        self.turns = 0
        self._player, self._first, self._each = scripted("level0"), first, each

    def begin(self, arena, seats) -> None:
        self.turns = 0

    def act(self, arena, seats, moves) -> None:
        self._player.act(arena, seats, moves)
        self.now += self._each if self.turns else self._first
        self.turns += 1

    def close(self) -> None:
        """Nothing to free."""


def test_a_match_is_measured_without_compiling_and_broken_off_in_time(monkeypatch):
    monkeypatch.setattr("opponents.league_estimate.MEASURED_MATCHES", 4)
    quick = Clocked(first=3.0, each=0.001)
    assert seconds_per_match(quick, "cpu", clock=lambda: quick.now) == pytest.approx(TURNS * 0.001 / 4)
    assert quick.turns == TURNS
    slow = Clocked(first=30.0, each=1.0)
    assert seconds_per_match(slow, "cpu", clock=lambda: slow.now) == pytest.approx(TURNS / 4)
    assert slow.turns == 2
    middling = Clocked(first=1.0, each=1.0)
    assert seconds_per_match(middling, "cpu", clock=lambda: middling.now) == pytest.approx(TURNS / 4)
    assert middling.turns == MEASURED_SECONDS + 1


def test_scripted_players_take_no_time_and_who_is_slow():
    assert seconds_per_match(scripted("level2"), "cpu") == 0.0
    assert not is_slow(scripted("level2"))
    assert is_slow(Function(lambda observation, snake: 0, "mine"))


def test_measuring_leaves_the_counts_of_a_submission_alone(tmp_path):
    path = written(tmp_path, controller("assert observation['controlled_snake_index'] != 2\nreturn [[1, 0, 0, 0]]"))
    options = SubmissionOptions(SANDBOXED.uncaged, workers=2)
    with Submission(path, options=options) as submission:
        assert is_slow(submission)
        assert seconds_per_match(submission, "cpu") > 0
        assert (submission.errors, submission.problems, submission.move_times.moves) == (0, [], 0)


def test_what_measures_a_submission_is_closed(tmp_path, monkeypatch):
    """Its processes would live as long as the league."""
    closed, close = [], Submission.close
    monkeypatch.setattr(Submission, "close", lambda self: (closed.append(self), close(self))[1])
    path = written(tmp_path, controller("return [[1, 0, 0, 0]]"))
    with Submission(path, options=SubmissionOptions(SANDBOXED.uncaged, workers=1)) as submission:
        seconds_per_match(submission, "cpu")
        assert len(closed) == 1
        assert closed[0] is not submission


def test_one_that_never_answers_takes_no_time_in_the_long_run(tmp_path):
    options = SubmissionOptions(SANDBOXED.uncaged, workers=1)
    with Submission(written(tmp_path, controller("while True: pass")), 0.1, options) as submission:
        assert seconds_per_match(submission, "cpu") == 0.0


def test_every_pair_takes_the_time_of_both():
    # Pairs 1 + 2, 1 + 4, 2 + 4, ten times.
    assert league_seconds([1.0, 2.0, 4.0], 10) == 10 * (3 + 5 + 6)
