"""Pairs in rounds: each board with both colours, until decided, or as time allows."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.course import short_matches
from helpers.submissions import SANDBOXED, controller, written

from arena.replay import Replay
from opponents.league_decision import AWAY, HOME
from opponents.league_rounds import FIRST_ROUND, PairedMatches, play_rounds
from opponents.match import play, play_some
from opponents.players import scripted
from opponents.round_robin import play_round_robin
from opponents.submission import Submission

TEAMS = ("level2", "level1")
COUNTS = ("matches", "wins", "draws", "losses", "home_score", "away_score", "home_deaths", "away_deaths", "turns")


def pair(home: str, away: str, record: bool = False) -> PairedMatches:
    return PairedMatches(scripted(home), scripted(away), "cpu", 3, record)


def test_every_board_is_played_with_both_colours():
    played = pair("level2", "level1")
    played.play(3)
    played.play(5)
    results = played.results()
    # The first half of twice as many matches has home as red; as blue it is the opponent of the first half.
    as_red, as_blue = play("level2", "level1", 16, seed=3), play("level1", "level2", 16, seed=3)
    assert results.matches == 16
    assert results.by_colour["red"] == as_red.by_colour["red"]
    other = as_blue.by_colour["red"]
    blue = results.by_colour["blue"]
    assert (blue.wins, blue.draws, blue.losses) == (other.losses, other.draws, other.wins)


def test_rounds_change_nothing():
    several, one = pair("level2", "level1"), pair("level2", "level1")
    for boards in (1, 4, 3):
        several.play(boards)
    one.play(8)
    assert [getattr(several.results(), name) for name in COUNTS] == [getattr(one.results(), name) for name in COUNTS]
    assert several.verdict == one.verdict


def test_a_player_against_itself_is_even():
    played = pair("level2", "level2")
    played.play(20)
    results = played.results()
    assert results.wins == results.losses
    assert results.home_score == results.away_score
    assert played.verdict is None


def test_the_replays_have_the_colours_of_their_matches():
    played = pair("level2", "level1", record=True)
    played.play(4)
    played.play(4)
    results = played.results()
    assert {*results.replays} == {"first", "closest", "worst", "best"}
    leads = {}
    for name, replay in results.replays.items():
        assert {replay.red, replay.blue} == {"level2", "level1"}
        lead = replay.result["red_score"] - replay.result["blue_score"]
        leads[name] = lead if replay.red == "level2" else -lead
    assert (results.replays["first"].match, results.replays["first"].red) == (0, "level2")
    as_red, as_blue = (play_some(*names, 16, range(8), seed=3).scores for names in (TEAMS, TEAMS[::-1]))
    expected = np.concatenate([as_red[:, 0] - as_red[:, 1], as_blue[:, 1] - as_blue[:, 0]])
    assert (leads["worst"], leads["best"]) == (expected.min(), expected.max())
    assert abs(leads["closest"]) == abs(expected).min()


def test_the_lost_matches_have_the_side_of_home():
    played = PairedMatches(scripted("level1"), scripted("level2"), "cpu", 3, keep_actions=True)
    played.play(2)
    played.play(3)
    results = played.results()
    lost = results.lost
    assert len(lost.numbers) == results.losses > 0
    assert {*lost.sides.tolist()} == {0, 1}
    for i, number in enumerate(lost.numbers.tolist()):
        replay = Replay.from_actions(3, number, None, lost.actions[:, i])
        assert replay.result["winner"] == ("red" if lost.sides[i] else "blue")


@pytest.mark.parametrize("is_home", [True, False])
def test_forfeits_and_problems_stay_with_the_player_that_has_them(is_home, tmp_path, monkeypatch):
    """As blue, too: half of the matches are played with the sides exchanged."""
    short_matches(monkeypatch)
    with Submission(written(tmp_path, controller("return 'no move'")), options=SANDBOXED) as broken:
        players = (broken, scripted("level0"))
        played = PairedMatches(*(players if is_home else players[::-1]), "cpu", 3)
        played.play(1)
        played.play(2)
        results = played.results()
    found = (results.losses, results.home_forfeits, results.wins, results.away_forfeits)
    assert found == ((6, 6, 0, 0) if is_home else (0, 0, 6, 6))
    assert len(results.problems) == len({text.rpartition(" (")[0] for text in results.problems}) > 0, "each once"


def test_the_speed_leaves_out_the_first_turns():
    """They may compile."""
    played = pair("level2", "level1")
    played.play(2)
    played.play(3)
    for parts in (played._as_red, played._as_blue):
        parts[:] = [replace(part, seconds=0.5) for part in parts]
    results = played.results()
    assert results.turns_per_second == pytest.approx((results.turns - 10) / 2)


def test_a_clear_pair_stops_and_an_even_one_plays_on():
    clear, turned, even = pair("level3", "level0"), pair("level0", "level3"), pair("level2", "level2")
    heard = []
    play_rounds([clear, turned, even], 30, stop_when_decided=True, progress=lambda _, share: heard.append(share))
    assert [each.boards for each in (clear, turned, even)] == [FIRST_ROUND, FIRST_ROUND, 30]
    assert [each.verdict for each in (clear, turned, even)] == [HOME, AWAY, None]
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)


class FakePair:
    """Takes a known time for every board."""

    def __init__(self, now: list[float], each: float) -> None:
        self.boards, self._now, self._each = 0, now, each

    def play(self, boards: int, progress) -> None:
        self.boards += boards
        self._now[0] += boards * self._each
        progress(1.0)


@pytest.mark.parametrize(("seconds", "boards"), [(100.0, 10), (1.0, 1), (0.0, 1), (1e6, 40)])
def test_as_much_as_fits_is_played_evenly(seconds, boards):
    now = [0.0]
    pairs = [FakePair(now, each) for each in (1.0, 3.0, 6.0)]  # 10 s for a board of all pairs
    heard = []
    play_rounds(pairs, 40, False, seconds, lambda _, share: heard.append(share), clock=lambda: now[0])
    assert {each.boards for each in pairs} == {boards}
    assert now[0] <= max(seconds, 10.0)  # the first round is played in any case
    assert max(heard) <= 1.0


class Slower(FakePair):
    """Its boards take longer after the first one, as matches between longer snakes do."""

    def play(self, boards: int, progress) -> None:
        super().play(boards, progress)
        self._each = 1.8


def test_a_round_that_takes_longer_than_the_last_one_ends_in_time():
    now = [0.0]
    slower = Slower(now, 1.0)
    play_rounds([slower], 40, False, 10.0, clock=lambda: now[0])
    assert slower.boards > 3
    assert now[0] <= 10.0


def test_a_league_stops_decided_pairs_and_rates_all():
    table = play_round_robin(["level0", "level3", "level3:0.01"], 60, seed=1, stop_when_decided=True)
    assert table.better is not None
    assert table.better[1, 0]
    assert not table.better[0].any()
    assert (table.played == table.played.T).all()
    assert table.played[0, 1] < table.matches == table.played.max()
    assert table.matches_per_pair == f"{table.played[0, 1]} to {table.matches}"
    points = table.points
    assert np.isnan(np.diag(points)).all()
    assert (points + points.T)[~np.eye(3, dtype=bool)] == pytest.approx(1)
    again = play_round_robin(["level0", "level3", "level3:0.01"], 60, seed=1, seconds=1e6)
    assert (again.played[~np.eye(3, dtype=bool)] == 60).all()
    assert again.better is None
