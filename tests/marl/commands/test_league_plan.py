"""How many matches a league plays, by the time that players were found to take."""

import pytest

from marl.commands import league_plan
from marl.commands.league_plan import LEAST, MATCHES, Plan, plan_matches
from marl.storage.policy_player import PolicyPlayer
from opponents.league_rounds import BOARDS_MOST
from opponents.players import Function, scripted

FAST = [scripted("level0"), scripted("level1")]
SLOW = [*FAST, Function(lambda observation, snake: 0, "mine")]


@pytest.fixture
def takes(monkeypatch):
    """Sets the seconds of a match of every player."""

    def set_seconds(seconds: float) -> None:
        monkeypatch.setattr(league_plan, "seconds_per_match", lambda *_: seconds)

    return set_seconds


def plan(players, matches=None, minutes=None, stop=False) -> Plan:
    return plan_matches(players, matches, minutes, "cpu", stop)


def test_fast_players_and_few_matches_are_not_measured(monkeypatch):
    monkeypatch.setattr("opponents.league_estimate.play_some", lambda *_, **__: pytest.fail("measured"))
    assert plan(FAST) == Plan(MATCHES)
    assert plan(FAST, matches=7) == Plan(7)
    assert plan(SLOW, matches=2) == Plan(2)
    assert plan(FAST, minutes=1.0) == Plan(2 * BOARDS_MOST)
    policy = PolicyPlayer.__new__(PolicyPlayer)
    assert plan_matches([*FAST, policy], None, None, "cuda", False) == Plan(MATCHES)


@pytest.mark.parametrize(("seconds", "matches"), [(1.0, 100), (0.99, 100), (60.0, LEAST), (0.0001, MATCHES)])
def test_the_default_for_slow_players_takes_ten_minutes(takes, seconds, matches):
    takes(seconds)  # three players, two pairs each: 6 x seconds for a match of every pair
    found = plan(SLOW)
    assert found.matches == matches
    assert found.seconds == pytest.approx(6 * seconds * matches)
    assert found.text.startswith(f"estimate: 3 pairs, {matches:,} matches each, about ")


def test_what_the_user_asks_for_is_estimated(takes):
    takes(1.0)
    assert plan(SLOW, matches=1000) == Plan(1000, 6000.0, "estimate: 3 pairs, 1,000 matches each, about 1 h 40 min")
    assert "at most 1,000 matches each, at most about 1 h 40 min" in plan(SLOW, matches=1000, stop=True).text
    found = plan(SLOW, minutes=2.0)
    assert (found.matches, found.text) == (2 * BOARDS_MOST, "estimate: 3 pairs, about 20 matches each in 2 min")
    assert "about 2 matches each" in plan(SLOW, minutes=0.01).text  # one board, in any case
    assert plan(SLOW, matches=8, minutes=2.0).matches == 8
