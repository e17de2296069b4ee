"""The schedule: exact thresholds, ladders climbed by results, and leagues."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.errors import ArenaError
from opponents.scheduler import LADDER, ScheduleConfig, Scheduler, parse_shares, strategies

ONLY = {"easier_share": 0.0}

# Progress in percent, then the rung of linear, exponential, curriculum, and evasive from 70 % on (5 is `evasive`).
TABLE = [
    (0, 0, 0, 0, 0),
    (5, 0, 0, 0, 0),
    (10, 0, 0, 1, 1),
    (15, 0, 0, 1, 1),
    (20, 0, 0, 1, 1),
    (25, 1, 0, 1, 1),
    (30, 1, 0, 2, 2),
    (35, 1, 0, 2, 2),
    (40, 1, 1, 2, 2),
    (45, 1, 1, 2, 2),
    (50, 2, 1, 2, 2),
    (55, 2, 1, 2, 2),
    (60, 2, 1, 3, 3),
    (65, 2, 2, 3, 3),
    (70, 2, 2, 3, 5),
    (75, 3, 2, 3, 5),
    (80, 3, 2, 3, 5),
    (85, 3, 3, 4, 5),
    (90, 3, 3, 4, 5),
    (95, 3, 3, 4, 5),
    (100, 4, 4, 4, 5),
]


def scheduler(strategy: str, **options) -> Scheduler:
    return Scheduler(ScheduleConfig(strategy, **options))


def rungs(strategy: str, episodes, **options) -> list[int]:
    schedule = scheduler(strategy, **options)
    return [LADDER.index(schedule.level(episode)) for episode in episodes]


def win_rate(schedule: Scheduler, name: str) -> float | None:
    """Of the results that still count, a draw as half a win; None if there are none."""
    score, matches = schedule.state_dict()["results"].get(name, (0, 0))
    return score / matches if matches else None


def beat(schedule: Scheduler, name: str, percent: int, matches: int = 200) -> None:
    """Record matches of which this many percent were won."""
    wins = matches * percent // 100
    schedule.record(name, wins, 0, matches - wins)


@pytest.mark.parametrize("end", [20, 100, 50_000, 10**12])
@pytest.mark.parametrize(
    ("column", "strategy"), [(1, "linear"), (2, "exponential"), (3, "curriculum"), (4, "evasive")], ids=str
)
def test_the_rung_at_every_twentieth_of_the_run(column, strategy, end) -> None:
    schedule = scheduler(strategy, max_episodes=end, opponent_evasion_start_episode=end * 7 // 10, easier_share=0.0)
    for row in TABLE:
        assert schedule.mix(row[0] * end // 100) == {LADDER[row[column]]: 1.0}, f"{row[0]} %"


@pytest.mark.parametrize(
    ("column", "strategy"), [(1, "linear"), (2, "exponential"), (3, "curriculum"), (4, "evasive")], ids=str
)
def test_the_done_share_of_a_run_counts_where_it_is_further(column, strategy) -> None:
    """As of a run whose time is over long before its episodes, and of one whose episodes are."""
    options = {"max_episodes": 1_000_000, "opponent_evasion_start_episode": 700_000, "easier_share": 0.0}
    schedule = scheduler(strategy, **options)
    for row in TABLE:
        share, expected = row[0] / 100, {LADDER[row[column]]: 1.0}
        assert schedule.mix(row[0], share) == expected, f"{row[0]} %, nearly no episodes"
        assert schedule.mix(row[0] * 10_000, share / 2) == expected, f"{row[0]} %, half of the time"
        assert schedule.rung(0, share) == row[column] == schedule.rung(row[0] * 10_000, 0.0)
    assert schedule.level(5, 1.5) == schedule.level(1_000_000), "a little after the end"


@given(st.integers(1, 10**15), st.integers(0, 10**15))
def test_the_share_of_the_episodes_changes_nothing(end, episode) -> None:
    """To the bit, whatever the division rounds: a run without a time limit plays as before."""
    for strategy in strategies():
        schedule = scheduler(strategy, max_episodes=end, opponent_evasion_start_episode=end // 2)
        assert schedule.rung(episode, min(1.0, episode / end)) == schedule.rung(episode)


@pytest.mark.parametrize(
    ("strategy", "end", "first"),
    [
        ("linear", 100_000, [25_000, 50_000, 75_000, 100_000]),
        ("linear", 10, [3, 5, 8, 10]),
        ("exponential", 100_000, [39_686, 62_997, 82_549, 100_000]),  # (k / 4) ^ (2 / 3)
        ("exponential", 10**18, [396_850_262_992_049_869, 629_960_524_947_436_583, 825_481_812_223_656_671, 10**18]),
        ("curriculum", 100_000, [10_000, 30_000, 60_000, 85_000]),
        ("curriculum", 70, [7, 21, 42, 60]),  # 85 % of 70 is 59.5
        ("curriculum", 10**18 + 10, [10**17 + 1, 3 * 10**17 + 3, 6 * 10**17 + 6, 85 * 10**16 + 9]),
    ],
)
def test_each_rung_begins_at_its_very_episode(strategy, end, first) -> None:
    for rung, episode in enumerate(first, start=1):
        assert rungs(strategy, [episode - 1, episode, episode + 1], max_episodes=end) == [rung - 1, rung, rung]


@given(st.integers(1, 10**15), st.integers(0, 10**15))
def test_the_rungs_are_the_formulas_in_exact_arithmetic(end, episode) -> None:
    p = min(Fraction(episode, end), Fraction(1))
    assert rungs("linear", [episode], max_episodes=end) == [4 * p // 1]
    assert rungs("exponential", [episode], max_episodes=end) == [max(k for k in range(5) if k * k <= 16 * p**3)]
    percents = [Fraction(10, 100), Fraction(30, 100), Fraction(60, 100), Fraction(85, 100)]
    assert rungs("curriculum", [episode], max_episodes=end) == [sum(p >= percent for percent in percents)]


@pytest.mark.parametrize("strategy", ["linear", "exponential", "curriculum", "evasive"])
def test_a_run_of_one_episode_and_episodes_past_the_end(strategy) -> None:
    assert rungs(strategy, [0, 1, 2, 1000], max_episodes=1) == [0, 4, 4, 4]
    assert rungs(strategy, [-1, 200, 30_000], max_episodes=100) == [0, 4, 4]


@pytest.mark.parametrize(
    ("strategy", "before", "after"), [("linear", 2, 1), ("exponential", 1, 0), ("curriculum", 2, 1)]
)
def test_another_length_on_resume_changes_the_progress_only(strategy, before, after) -> None:
    old = scheduler(strategy, max_episodes=1000)
    longer = scheduler(strategy, max_episodes=2000)
    longer.load_state_dict(old.state_dict())
    assert (old.level(500), longer.level(500)) == (LADDER[before], LADDER[after])
    assert longer.level(2000) == "level4"


@pytest.mark.parametrize("strategy", strategies())
def test_the_evasive_phase_comes_on_top_of_any_strategy(strategy) -> None:
    options = {"max_episodes": 100_000, "enable_opponent_evasion": True} | ONLY
    schedule = scheduler(strategy, **options)
    assert schedule.level(39_999) != "evasive"
    assert [schedule.mix(episode) for episode in (40_000, 40_001, 10**6)] == [{"evasive": 1.0}] * 3
    if strategy != "evasive":
        plain = scheduler(strategy, **options | {"enable_opponent_evasion": False})
        assert plain.level(40_000) != "evasive"
        assert plain.level(39_999) == schedule.level(39_999)


def test_the_evasive_phase_may_start_at_once() -> None:
    assert scheduler("evasive", opponent_evasion_start_episode=0).level(0) == "evasive"


def test_the_easier_share_is_spread_geometrically() -> None:
    mix = scheduler("curriculum", max_episodes=100, easier_share=0.35).mix(70)
    assert list(mix) == ["level0", "level1", "level2", "level3"]
    assert mix == pytest.approx({"level0": 0.05, "level1": 0.1, "level2": 0.2, "level3": 0.65})
    assert scheduler("curriculum", max_episodes=100).mix(0) == {"level0": 1.0}


def test_a_strategy_nobody_knows_gets_the_list_of_those_known() -> None:
    with pytest.raises(
        ValueError, match=r"^unknown .* 'liner'; known: linear, exponential, curriculum, evasive, adaptive, league$"
    ):
        ScheduleConfig("liner")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_episodes", 0),
        ("opponent_evasion_start_episode", -1),
        ("easier_share", 1.0),
        ("easier_share", -0.1),
        ("easier_share", float("nan")),
        ("up", 1.1),
        ("down", 0.7),
        ("window", 0),
        ("league_power", -1.0),
        ("league_scripted_share", 1.5),
        ("league_interval", 0),
        ("league_size", 0),
        ("self_play", -0.1),
        ("self_play", 1.1),
    ],
)
def test_a_value_out_of_range_is_one_line_that_names_it(name, value) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is {value}; allowed: .*$"):
        replace(ScheduleConfig(), **{name: value})


def test_adaptive_climbs_to_the_top_and_falls_to_the_bottom() -> None:
    schedule = scheduler("adaptive")
    seen = [schedule.level(0)]
    for percent in [70] * 8 + [20] * 8:
        beat(schedule, schedule.level(0), percent, matches=10_000)
        seen.append(schedule.level(0))
    assert seen == [*LADDER, "territory", "territory", *LADDER[-2::-1], "level0", "level0"]


@pytest.mark.parametrize("percent", [30, 50, 69])
def test_adaptive_stays_between_the_two_rates(percent) -> None:
    schedule = scheduler("adaptive")
    beat(schedule, "level0", 100)
    for _ in range(10):
        beat(schedule, "level1", percent)
    assert schedule.level(0) == "level1"


def test_adaptive_waits_for_a_whole_window() -> None:
    schedule = scheduler("adaptive")
    beat(schedule, "level0", 100, matches=199)
    assert schedule.level(0) == "level0"
    beat(schedule, "level0", 100, matches=1)
    assert schedule.level(0) == "level1"


def test_adaptive_ignores_what_happens_on_easier_rungs() -> None:
    schedule = scheduler("adaptive")
    beat(schedule, "level0", 100)
    for percent in (0, 100):
        beat(schedule, "level0", percent, matches=1000)
        assert schedule.level(0) == "level1"


def test_adaptive_judges_a_rung_afresh_each_time_it_comes_to_it() -> None:
    schedule = scheduler("adaptive")
    beat(schedule, "level0", 100)
    beat(schedule, "level1", 29)
    assert (schedule.level(0), win_rate(schedule, "level0")) == ("level0", None)
    beat(schedule, "level0", 100)
    assert (schedule.level(0), win_rate(schedule, "level1")) == ("level1", None)


def test_adaptive_climbs_on_from_the_evasive_phase() -> None:
    schedule = scheduler("adaptive", enable_opponent_evasion=True)
    beat(schedule, "evasive", 0)
    assert (schedule.level(0), schedule.level(40_000)) == ("level0", "evasive")
    beat(schedule, "evasive", 100, matches=2000)
    assert schedule.level(40_000) == "territory"


def test_a_draw_is_half_a_win() -> None:
    schedule = scheduler("curriculum")
    assert win_rate(schedule, "level2") is None
    schedule.record("level2", 1, 2, 1)
    assert win_rate(schedule, "level2") == 0.5


def test_old_results_fade() -> None:
    schedule = scheduler("curriculum", window=100)
    beat(schedule, "level4", 100, matches=10**6)
    beat(schedule, "level4", 0, matches=400)
    assert win_rate(schedule, "level4") < 0.34
    assert schedule.state_dict()["results"]["level4"][1] < 200


def test_strategies_by_progress_do_not_follow_results() -> None:
    schedule = scheduler("linear")
    beat(schedule, "level0", 100, matches=1000)
    assert schedule.level(0) == "level0"


@pytest.mark.parametrize(
    ("result", "message"),
    [(("champion", 1, 0, 0), "neither on the ladder nor a past self"), (("level0", 1, -1, 0), "negative")],
)
def test_results_that_cannot_be_are_refused(result, message) -> None:
    with pytest.raises(ValueError, match=message):
        scheduler("league").record(*result)


def test_a_league_without_past_selves_is_the_ladder() -> None:
    schedule = scheduler("league")
    assert schedule.mix(0) == {"level0": 1.0}
    beat(schedule, "level0", 90)
    assert schedule.mix(0) == pytest.approx({"level0": 0.2, "level1": 0.8})


def test_a_league_prefers_the_hard_and_the_new_and_gives_up_nobody() -> None:
    schedule = scheduler("league")
    for name, percent in [("beaten", 100), ("even", 50), ("hard", 10), ("new", None)]:
        schedule.add_past_self(name)
        if percent is not None:
            beat(schedule, name, percent)
    mix = schedule.mix(0)
    assert 0 < mix["beaten"] < 0.01 < mix["even"] < mix["hard"] < mix["new"]
    assert mix["level0"] == pytest.approx(0.3)
    assert mix["even"] / mix["new"] == pytest.approx((1 - 100 / 210) ** 2)
    assert schedule.level(0) == "level0"


@pytest.mark.parametrize(("power", "shares"), [(0.0, (0.5, 0.5)), (1e4, (0.0, 1.0))])
def test_any_league_power_gives_a_mix(power, shares) -> None:
    schedule = scheduler("league", league_power=power, league_scripted_share=0.0)
    for name, percent in [("easy", 100), ("hard", 90)]:
        schedule.add_past_self(name)
        beat(schedule, name, percent)
    mix = schedule.mix(0)
    assert (mix.get("easy", 0.0), mix["hard"]) == pytest.approx(shares)
    assert "level0" not in mix


@pytest.mark.parametrize("name", ["level3", "old"])
def test_a_past_self_needs_a_name_of_its_own(name) -> None:
    schedule = scheduler("league")
    schedule.add_past_self("old")
    with pytest.raises(ValueError, match=f"^past self '{name}' "):
        schedule.add_past_self(name)


def test_a_full_league_lets_the_one_go_that_is_beaten_most_surely() -> None:
    schedule = scheduler("league", league_size=3)
    for name, percent in [("beaten", 95), ("even", 50), ("beaten_before", 90)]:
        assert schedule.add_past_self(name) is None
        beat(schedule, name, percent)
    assert schedule.add_past_self("new") == "beaten"
    assert schedule.state_dict()["past_selves"] == ["even", "beaten_before", "new"]
    assert "beaten" not in schedule.mix(0)
    assert win_rate(schedule, "beaten") is None
    assert schedule.add_past_self("newer") == "beaten_before", "one that was never met is not given up"
    assert schedule.add_past_self("beaten") == "even", "and a name that left may come again"


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.7),
        ({"league_scripted_share": 0.0}, 1.0),
        ({"league_scripted_share": 1.0}, 0.0),
        ({"self_play": 0.5}, 0.35),
        ({"self_play": 1.0}, 0.0),
    ],
)
def test_past_selves_share_with_the_ladder_what_self_play_leaves(options, share) -> None:
    assert scheduler("league", **options).past_share() == pytest.approx(share)
    for strategy in set(strategies()) - {"league"}:
        assert scheduler(strategy, **options).past_share() == 0


@st.composite
def histories(draw):
    """A schedule of any kind after any results, and an episode to ask for."""
    share = st.floats(0, 1, exclude_max=True)
    schedule = scheduler(
        draw(st.sampled_from(strategies())),
        max_episodes=draw(st.integers(1, 10**6)),
        enable_opponent_evasion=draw(st.booleans()),
        easier_share=draw(share),
        window=draw(st.integers(1, 300)),
        league_power=draw(st.floats(0, 1000)),
        league_scripted_share=draw(share),
    )
    past = [f"self{i}" for i in range(draw(st.integers(0, 4)))]
    for name in past:
        schedule.add_past_self(name)
    count = st.integers(0, 500)
    for result in draw(st.lists(st.tuples(st.sampled_from([*LADDER, *past]), count, count, count), max_size=12)):
        schedule.record(*result)
    return schedule, draw(st.integers(0, 2 * 10**6))


@given(histories())
def test_a_mix_adds_up_and_holds_known_opponents_only(history) -> None:
    schedule, episode = history
    mix = schedule.mix(episode)
    assert sum(mix.values()) == pytest.approx(1, abs=1e-12)
    assert all(share >= 0 for share in mix.values())
    assert mix.keys() <= {*LADDER, *schedule.state_dict()["past_selves"]}
    assert schedule.level(episode) in LADDER


@given(histories())
def test_a_state_through_json_goes_on_just_the_same(history) -> None:
    schedule, episode = history
    twin = Scheduler(schedule.config)
    twin.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    for step in range(20):
        assert list(twin.mix(episode).items()) == list(schedule.mix(episode).items())
        for either in (schedule, twin):
            beat(either, either.level(episode), 37 * step % 101, matches=123)
    assert twin.state_dict() == schedule.state_dict()


GOOD = {"strategy": "league", "rung": 2, "results": {"level2": [1.5, 4], "old": [0.0, 1.0]}, "past_selves": ["old"]}


def test_a_state_shares_nothing_with_its_schedule() -> None:
    schedule = scheduler("league")
    schedule.load_state_dict(GOOD)
    state = schedule.state_dict()
    beat(schedule, "old", 100)
    schedule.add_past_self("new")
    assert state == GOOD


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "adaptive"},
        {"more": 1},
        {"rung": 7},
        {"rung": -1},
        {"rung": True},
        {"rung": "2"},
        {"past_selves": "old"},
        {"past_selves": ["old", "old"]},
        {"past_selves": ["old", "level1"]},
        {"past_selves": [["old"]]},
        {"past_selves": []},
        {"results": []},
        {"results": {"nobody": [0, 1]}},
        {"results": {"level0": [2, 1]}},
        {"results": {"level0": [-1, 1]}},
        {"results": {"level0": [1]}},
        {"results": {"level0": ["0", "1"]}},
        {"results": {"level0": [float("nan"), 1]}},
        {"results": {"level0": [1, float("inf")]}},
        {"results": {"level0": None}},
    ],
    ids=str,
)
def test_a_state_that_does_not_fit_is_refused_in_one_line_and_changes_nothing(change) -> None:
    schedule = scheduler("league")
    schedule.load_state_dict(GOOD)
    with pytest.raises(ValueError, match=r"\Aschedule state .+\Z"):
        schedule.load_state_dict(GOOD | change)
    assert schedule.state_dict() == GOOD


@pytest.mark.parametrize("state", [{}, None, [], {"strategy": "league"}])
def test_a_state_with_something_missing_is_refused(state) -> None:
    with pytest.raises(
        ValueError, match=r"\Aschedule state holds .+; expected: strategy, rung, results, past_selves\Z"
    ):
        scheduler("league").load_state_dict(state)


def test_the_ladder_is_made_of_the_scripted_opponents() -> None:
    from opponents.scripted import SCRIPTED

    assert set(LADDER) <= SCRIPTED.keys()


def test_the_share_stands_after_the_last_colon() -> None:
    texts = ("champion:0.4", "level3:0.2:0.1", "plan=8x6:champion:0.1", "runs/a:b:1e-2")
    assert parse_shares(texts) == {"champion": 0.4, "level3:0.2": 0.1, "plan=8x6:champion": 0.1, "runs/a:b": 0.01}
    assert parse_shares(()) == {}


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["champion"], "'champion' has no share of the matches; write PLAYER:SHARE"),
        (["plan:champion"], "'plan:champion' has no share"),
        ([":0.4"], "':0.4' has no share"),
        (["champion:0"], "the share of champion is 0; allowed: above 0, at most 1"),
        (["champion:-0.1"], "is -0.1; allowed"),
        (["champion:1.5"], "is 1.5; allowed"),
        (["champion:nan"], "is nan; allowed"),
        (["champion:0.1", "champion:0.2"], "champion is named twice"),
        (["champion:0.6", "level1:0.5"], "the shares add up to 1.1; allowed: at most 1"),
    ],
)
def test_mistakes_are_told(texts, part) -> None:
    with pytest.raises(ArenaError, match=re.escape(part)):
        ScheduleConfig(opponents=tuple(texts))


def test_self_play_counts_too() -> None:
    with pytest.raises(ArenaError, match=r"with self_play 0\.5 add up to 1\.1"):
        ScheduleConfig(opponents=("champion:0.6",), self_play=0.5)
    ScheduleConfig(opponents=("a:0.4", "b:0.2", "c:0.2", "d:0.1", "e:0.1"))  # 1.0000000000000002 as floats


def test_past_selves_get_their_part_of_the_rest() -> None:
    config = ScheduleConfig(strategy="league", opponents=("champion:0.5",), league_scripted_share=0.2)
    assert Scheduler(config).past_share() == pytest.approx(0.4)
    assert Scheduler(ScheduleConfig(opponents=("champion:0.5",))).past_share() == 0
