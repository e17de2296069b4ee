"""The most telling matches of the teams of a league: whose they are, how few are kept."""

import pytest

from marl.analysis.telling import EXAMPLES, TellingMatches, examples_per_pair
from opponents.round_robin import play_round_robin

NAMES = ("level0", "level2", "level3")


@pytest.mark.parametrize("in_rounds", [False, True])
def test_every_team_has_its_own_lost_matches_first(in_rounds):
    telling, pairs = TellingMatches(seed=4), []

    def add(results):
        pairs.append(results)
        telling.add(results)

    play_round_robin(NAMES, 40, seed=4, progress=add, examples=EXAMPLES, stop_when_decided=in_rounds)
    for pair in pairs:
        assert [len(of.numbers) for of in pair.examples] == [min(EXAMPLES, n) for n in (pair.losses, pair.wins)]
        assert pair.replays == {}
    for name in NAMES:
        found = telling.of(name)
        assert len(found) == 3
        losers = [match.loser == name for match in found]
        assert losers == sorted(losers, reverse=True)
        assert all(losers) or name == "level3", "the others have lost often enough"
        for match in found:
            assert name in (match.loser, match.winner)
            side = "red" if match.replay.red == match.loser else "blue"
            other = {"red": "blue", "blue": "red"}[side]
            result = match.replay.result
            assert (result[f"{side}_score"], result[f"{other}_score"]) == match.scores
            assert match.scores[0] < match.scores[1]
            assert match.leads[1] < match.leads[0]
            assert match.replay.turns[match.turn - 1]["died"]
            assert getattr(match.replay, other) == match.winner


def test_a_large_league_looks_at_fewer_matches_of_each_pair():
    assert [examples_per_pair(players) for players in (2, 16, 30, 200)] == [16, 16, 4, 1]
