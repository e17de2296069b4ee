"""Matches between two players: sides, results, intervals, replays."""

import dataclasses
from itertools import pairwise

import pytest
import torch
from helpers.submissions import SANDBOXED

from arena.errors import ArenaError
from arena.replay import Replay, read, write
from arena.rules import SNAKES, TEAM
from opponents.match import play, play_side_by_side, play_some, summarise
from opponents.players import Function, Scripted, scripted
from opponents.results import Tally


def results_of(*arguments, **options):
    """Everything but the speed, which no two runs share."""
    return dataclasses.replace(play(*arguments, **options), turns_per_second=0.0)


def test_every_batch_size_gives_the_same_results():
    whole = results_of("level3", "level2:0.1", 80, seed=4, record=True)
    assert results_of("level3", "level2:0.1", 80, seed=4, record=True, batch=17) == whole
    assert results_of("level3", "level2:0.1", 80, seed=5) != whole


@pytest.mark.parametrize("borders", [(0, 80), (0, 1, 40, 80), (0, 26, 53, 80)])
def test_matches_played_in_parts_give_the_results_of_the_whole(borders):
    whole = results_of("level3", "level2:0.1", 80, seed=4, record=True)
    parts = [play_some("level3", "level2:0.1", 80, range(*border), seed=4, record=True) for border in pairwise(borders)]
    assert dataclasses.replace(summarise(parts, seed=4), turns_per_second=0.0) == whole


@pytest.mark.needs_cuda
def test_every_device_gives_the_same_results():
    options = {"matches": 80, "seed": 4, "record": True}
    on_gpu = results_of("level3", "level2:0.1", device="cuda", **options)
    assert on_gpu == results_of("level3", "level2:0.1", **options)


def test_home_wins_on_either_side():
    """Of two matches home is red in the first and blue in the second."""
    results = play("level3", "level0", 2, record=True)
    assert (results.wins, results.draws, results.losses) == (2, 0, 0)
    swapped = play("level0", "level3", 2)
    assert (swapped.wins, swapped.draws, swapped.losses) == (0, 0, 2)
    assert (swapped.home_score, swapped.home_deaths) != (swapped.away_score, swapped.away_deaths)


def test_the_sides_change_after_half_of_the_matches():
    seen = []

    def note(observation, snake):
        seen.append(snake)
        return 0

    play(Function(note), "level0", 3, batch=1)
    assert [seen[turn * 3] for turn in (0, 200, 400)] == [0, 0, 3]  # the odd match is played as red


class StrongAsRed(Scripted):
    """Plays level3 as red and level0 as blue."""

    weak = Scripted("level0")

    def act(self, arena, seats, moves):
        red = seats % SNAKES < TEAM
        super().act(arena, seats[red], moves)
        self.weak.act(arena, seats[~red], moves)

    def bind_turn(self, *_):
        return ()


@pytest.mark.parametrize("batch", [None, 3])
def test_wins_are_told_by_the_colour_of_home(batch):
    results = play(StrongAsRed("level3"), "level1", 7, batch=batch)
    assert results.by_colour == {"red": Tally(4, 4, 0, 0), "blue": Tally(3, 0, 0, 3)}
    assert (results.wins, results.losses) == (4, 3)
    assert [*play("level0", "level1", 1).by_colour] == ["red"]


def test_numbers_fit_together():
    results = play("level2", "level1", 30)
    assert results.wins + results.draws + results.losses == results.matches == 30
    assert results.turns == 30 * 200
    assert results.turns_per_second > 0
    assert results.home_score == pytest.approx(3 * results.home_length - 9)
    assert results.points == pytest.approx((results.wins + results.draws / 2) / 30)
    assert results.win_rate_low < results.win_rate < results.win_rate_high
    assert results.replays == {}


def test_replays_of_the_first_the_closest_the_worst_and_the_best_match(tmp_path):
    results = play("level2", "level3", 40, seed=9, record=True, batch=16)
    leads = {}
    for which, replay in results.replays.items():
        write(tmp_path / which, replay)
        assert read(tmp_path / which) == replay
        home_is_red = replay.match < 20
        assert (replay.red, replay.blue) == (("level2", "level3") if home_is_red else ("level3", "level2"))
        red_lead = replay.result["red_score"] - replay.result["blue_score"]
        leads[which] = red_lead if home_is_red else -red_lead
    assert results.replays["first"].match == 0
    assert leads["worst"] < min(0, leads["first"])
    assert leads["best"] >= max(leads["first"], leads["closest"])
    assert abs(leads["closest"]) <= abs(leads["first"])


def test_a_replay_is_of_the_match_that_was_counted():
    one = play("level2", "level3", 1, seed=3, record=True)
    replay = one.replays["worst"]
    assert (replay.result["red_score"], replay.result["blue_score"]) == (one.home_score, one.away_score)
    assert len(replay.turns) == one.turns


def test_a_forfeited_match_is_lost(tmp_path):
    (tmp_path / "submission.py").write_text(
        "def my_controller(observation, space, continuous): raise ValueError('no')\n"
    )
    results = play(str(tmp_path), "level0", 4, submissions=SANDBOXED)
    assert (results.losses, results.home_forfeits, results.away_forfeits) == (4, 4, 0)
    assert results.by_colour == dict.fromkeys(("red", "blue"), Tally(2, 0, 0, 2))
    assert any("ValueError" in line for line in results.problems)
    results = play("level0", str(tmp_path), 2, submissions=SANDBOXED)
    assert (results.wins, results.home_forfeits, results.away_forfeits) == (2, 0, 2)


@pytest.mark.parametrize("options", [{"matches": 0}, {"matches": 4, "batch": 0}])
def test_nothing_to_play(options):
    with pytest.raises(ArenaError, match="is 0; allowed: a whole number from 1"):
        play("level0", "level1", **options)


def test_one_object_cannot_play_both_sides():
    player = Scripted("level1")
    with pytest.raises(ArenaError, match="same object"):
        play(player, player, 2)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.needs_cuda)])
@pytest.mark.parametrize("batch", [None, 7])
def test_several_opponents_side_by_side_are_met_as_one_after_another(device, batch, monkeypatch):
    names, numbers = ("level1", "level3:0.1", "evasive"), range(5, 30)
    if batch is not None:
        monkeypatch.setattr("opponents.match.BATCH", batch * len(names))
    home = Scripted("level2", 0.05)
    found = play_side_by_side(home, [scripted(name) for name in names], 40, numbers, torch.device(device), 4, True)
    assert [part.away for part in found] == [*names]
    for name, part in zip(names, found, strict=True):
        alone = play_some("level2:0.05", name, 40, numbers, seed=4, record=True)
        for field in ("home", "away", "turns", "problems"):
            assert getattr(part, field) == getattr(alone, field)
        for field in ("scores", "deaths", "forfeits"):
            assert (getattr(part, field) == getattr(alone, field)).all(), field
        for pick, (order, number, actions) in alone.picks.items():
            assert part.picks[pick][:2] == (order, number)
            assert (part.picks[pick][2] == actions).all()


def test_the_lost_matches_are_kept_and_can_be_played_again():
    options = {"matches": 16, "seed": 4}
    results = play("level2", "level3", **options, keep_actions=True, batch=7)
    assert dataclasses.replace(results, turns_per_second=0.0) == results_of("level2", "level3", **options)
    lost = results.lost
    assert 0 < len(lost.numbers) == results.losses < 16
    assert lost.sides.tolist() == [int(number >= 8) for number in lost.numbers]
    for i, number in enumerate(lost.numbers.tolist()):
        replay = Replay.from_actions(4, number, None, lost.actions[:, i])
        assert replay.result["winner"] == ("red" if lost.sides[i] else "blue")
    assert play("level2", "level3", **options).lost is None


def test_of_no_lost_match_nothing_is_kept():
    lost = play("level3", "level0", 4, keep_actions=True).lost
    assert (len(lost.numbers), lost.actions.shape) == (0, (200, 0, 6))


def test_a_forfeited_match_is_not_lost_by_score(tmp_path):
    path = tmp_path / "submission.py"
    path.write_text("def my_controller(observation, *_):\n    raise ValueError\n")
    results = play(str(path), "level0", 2, keep_actions=True, submissions=SANDBOXED)
    assert (results.losses, results.home_forfeits, len(results.lost.numbers)) == (2, 2, 0)
