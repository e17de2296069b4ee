"""Why matches were lost: the tables and the text of matches made by hand."""

from dataclasses import replace

import pytest

from arena.deaths import FOE_BODY, FOE_HEAD, MATE_HEAD, OWN_BODY, Death, DecisiveTurn
from marl.analysis.explanation import EQUAL, KINDS, LONGER, SHORTER, Explanation, kind_of
from marl.analysis.losses import LostMatch


def leads(*changes: tuple[int, int]) -> list[int]:
    """Leads after turns 0 to 200 that change on some turns: (turn, new lead)."""
    found, lead = [], 0
    for turn in range(201):
        lead = dict(changes).get(turn, lead)
        found.append(lead)
    return found


AS_RED = LostMatch(
    index=0,
    number=7,
    side=0,
    scores=(10, 14),
    leads=leads((30, 2), (60, -8), (120, 5), (140, -4)),
    deaths=[
        Death(60, 1, 13, FOE_BODY, 3, 9, 55),
        Death(140, 2, 12, OWN_BODY, 2, 12, 139),
        Death(160, 2, 3, FOE_HEAD, 4, 8, None),
    ],
    away_lost=[14, 0],
)
AS_BLUE = LostMatch(
    index=1,
    number=9,
    side=1,
    scores=(0, 20),
    leads=leads((10, -20)),
    deaths=[Death(20, 4, 4, MATE_HEAD, 5, 3, None)],
    away_lost=[],
)
BOTH = Explanation(matches=10, forfeits=1, lost=[AS_RED, AS_BLUE])


@pytest.mark.parametrize(
    ("death", "expected"),
    [
        (Death(1, 0, 5, FOE_HEAD, 3, 6, None), LONGER),
        (Death(1, 0, 5, FOE_HEAD, 3, 5, None), EQUAL),
        (Death(1, 0, 5, FOE_HEAD, 3, 4, None), SHORTER),
        (Death(1, 0, 5, FOE_BODY, 3, 9, None), FOE_BODY),
        (Death(1, 0, 5, MATE_HEAD, 1, 9, None), MATE_HEAD),
    ],
)
def test_heads_of_foes_are_told_apart_by_length(death, expected):
    assert kind_of(death) == expected
    assert expected in KINDS


def test_the_tables():
    tables = BOTH.as_dict()
    assert (tables["lost"], tables["forfeited"], tables["mean_deficit"]) == (2, 1, 12)
    assert tables["per_match"]["home"] == {"beans": 15, "cells": 10, "deaths": 2}
    assert tables["per_match"]["away"] == {"beans": 24, "cells": 7, "deaths": 1}
    assert tables["causes"] == {
        FOE_BODY: {"deaths": 1, "cells": 10, "boxed_in_cells": 10},
        LONGER: {"deaths": 1, "cells": 0, "boxed_in_cells": 0},
        MATE_HEAD: {"deaths": 1, "cells": 1, "boxed_in_cells": 0},
        OWN_BODY: {"deaths": 1, "cells": 9, "boxed_in_cells": 9},
    }
    assert {name: of["cells"] for name, of in tables["by_turn"].items()} == {
        "1-50": 1, "51-100": 10, "101-150": 9, "151-200": 0,
    }  # fmt: skip
    assert {name: of["deaths"] for name, of in tables["by_length"].items()} == {
        "3": 1, "4-7": 1, "8-12": 1, "13-19": 1, "20 or more": 0,
    }  # fmt: skip
    assert tables["by_length"]["13-19"]["causes"] == {FOE_BODY: 10}
    assert [(of["lost"], of["cells"]) for of in tables["by_colour"].values()] == [(1, 19), (1, 1)]
    assert tables["boxed_in"] == {
        "deaths": 2, "cells": 19, "boxed_in_cells": 19, "median_turns": 3, "most_turns": 5,
    }  # fmt: skip
    assert tables["lead"] == {
        "50": {"mean": -9, "ahead": 1},
        "100": {"mean": -14, "ahead": 0},
        "150": {"mean": -12, "ahead": 0},
    }


def test_a_match_that_ended_early_keeps_its_last_lead():
    short = replace(AS_BLUE, leads=[0, 5, -3], deaths=[])
    tables = Explanation(1, 0, [short]).as_dict()
    assert {of["mean"] for of in tables["lead"].values()} == {-3}
    assert Explanation(1, 0, [short]).mean_leads == [0, 5, *[-3] * 199]


def test_the_decisive_turn_and_the_most_telling_matches():
    assert AS_RED.decisive == DecisiveTurn(60, 10)
    assert AS_BLUE.decisive is None  # its lead fell without a death
    earlier = replace(AS_RED, number=1, leads=leads((59, 20), (60, 5), (199, -1)))
    both = Explanation(3, 0, [AS_RED, AS_BLUE, earlier])
    assert [(match.number, decisive.turn) for match, decisive in both.telling] == [(1, 60), (7, 60)]
    tables = both.as_dict()
    assert tables["decisive"] == {"turned": 2, "median_turn": 60}  # 10 of 4 lacking, 15 of 1
    assert tables["telling"][1] == {
        "match": 7,
        "colour": "red",
        "turn": 60,
        "text": "snake 1 (red) hit snake 3, lost 10; no safe move since turn 55; the lead went from +2 to -8",
    }


@pytest.mark.parametrize(("end", "turned"), [(-9, 1), (-10, 1), (-11, 0)])
def test_a_turn_that_cost_exactly_what_was_lacking_turned_the_match(end, turned):
    fell_by_ten = replace(AS_RED, leads=leads((60, -10), (150, end)))
    assert Explanation(1, 0, [fell_by_ten]).as_dict()["decisive"]["turned"] == turned


def test_matches_that_one_turn_cost_come_first():
    heavier = replace(AS_RED, number=3, leads=leads((59, 40), (60, 10), (150, -60)))  # 30 of 60 lacking
    found = Explanation(3, 0, [heavier, AS_RED]).telling
    assert [(match.number, decisive.weight) for match, decisive in found] == [(7, 10), (3, 30)]


def test_all_deaths_of_the_decisive_turn_are_told():
    pair = [Death(60, 1, 13, MATE_HEAD, 2, 20, None), Death(60, 2, 20, MATE_HEAD, 1, 13, None)]
    (told,) = Explanation(1, 0, [replace(AS_RED, deaths=pair)]).as_dict()["telling"]
    assert told["text"] == (
        "snake 2 (red) met the head of snake 1, lost 17; snake 1 died, too, lost 10; the lead went from +2 to -8"
    )


def test_the_text():
    assert BOTH.text() == [
        "lost           2 of 10 matches, by 12.0 on average; 1 forfeited, not counted here",
        "a lost match   ate 15.0 : 24.0 beans, lost 10.0 : 7.0 cells by 2.0 : 1.0 deaths",
        "lead           -9.0 after turn 50 (ahead in 50%), -14.0 after turn 100 (ahead in 0%), "
        "-12.0 after turn 150 (ahead in 0%)",
        "cells lost to  foe's body 50%, own body 45%, mate's head 5%",
        "boxed in       95% of the cells: no safe move for 3 turns before the death (median; 5 at the most)",
        "by turn        1-50: 5% (mate's head 100%), 51-100: 50% (foe's body 100%), 101-150: 45% (own body 100%)",
        "by length      4-7: 5% (mate's head 100%), 8-12: 45% (own body 100%), 13-19: 50% (foe's body 100%)",
        "by colour      1 as red with 19.0 cells each (foe's body 53%), "
        "1 as blue with 1.0 cells each (mate's head 100%)",
        "decisive turn  60 (median); in 50% of the matches it cost at least what was lacking in the end",
        "most telling   match 7, turn 60: snake 1 (red) hit snake 3, lost 10; no safe move since turn 55; "
        "the lead went from +2 to -8",
    ]


def test_without_a_loss_and_without_a_death():
    assert Explanation(5, 0, []).text() == ["lost           none of 5 matches"]
    assert Explanation(5, 2, []).as_dict() == {"lost": 0, "forfeited": 2}
    text = Explanation(1, 0, [replace(AS_BLUE, deaths=[])]).text()
    assert "cells lost to  nothing" in text
    assert not any(line.startswith(("decisive turn", "boxed in")) for line in text)
