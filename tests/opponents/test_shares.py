"""Texts PLAYER:SHARE of the option `opponents`."""

import re

import pytest

from arena.errors import ArenaError
from opponents.scheduler import ScheduleConfig, Scheduler
from opponents.shares import parse_shares


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
