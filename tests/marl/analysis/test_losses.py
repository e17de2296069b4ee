"""Lost matches that are played again: the same deaths and leads as their replays have."""

import pytest

from arena.deaths import find_deaths
from arena.match_dict import from_dict, team_scores
from arena.render.timeline import recorded_timeline
from arena.replay import Replay
from marl.analysis import losses
from opponents.match import play

SEED = 4


@pytest.fixture(scope="module")
def recorded():
    lost = play("level1:0.1", "level2", 12, seed=SEED, keep_actions=True).lost
    assert {*lost.sides.tolist()} == {0, 1}
    return lost


@pytest.mark.parametrize("batch", [5, 64])
def test_a_batch_has_what_the_replays_have(recorded, batch, monkeypatch):
    monkeypatch.setattr(losses, "BATCH", batch)
    shares = []
    found = losses.play_again(recorded, SEED, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert [match.index for match in found] == [*range(len(recorded.numbers))]
    for match in found:
        replay = Replay.from_actions(SEED, match.number, None, recorded.actions[:, match.index])
        timeline = recorded_timeline(replay)
        side = 3 * match.side
        deaths = find_deaths(timeline.turns, lambda k, of=timeline: from_dict(of.turns[k].state))
        assert match.deaths == [death for death in deaths if death.snake // 3 == match.side]
        assert match.away_lost == [death.lost for death in deaths if death.snake not in range(side, side + 3)]
        scores = [team_scores(state) for state in replay.states()]
        assert match.leads == [of[match.side] - of[1 - match.side] for of in scores]
        assert match.scores == (scores[-1][match.side], scores[-1][1 - match.side])
        assert match.leads[-1] < 0
        assert match.lost == sum(death.lost for death in match.deaths)


def test_nothing_was_lost():
    assert losses.play_again(play("level3", "level0", 4, keep_actions=True).lost, 0) == []
