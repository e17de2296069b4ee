"""Deaths with their cause and changes of the lead, against the rules themselves."""

import itertools
import re

from helpers.viewed import log_of, long_match, wild_match

from arena.match_dict import team_scores
from arena.render.events import BOXED, DEATH, DECISIVE, LEAD, events
from arena.render.timeline import Timeline, Turn, recorded_timeline

BEFORE = {
    "turn": 3,
    "snakes": [
        [[4, 4], [4, 3], [4, 2]],
        [[4, 6], [4, 7], [4, 8]],
        [[7, 7], [6, 7], [6, 6], [7, 6], [8, 6]],
        [[0, 19], [0, 18], [0, 17]],
        [[1, 0], [0, 0], [9, 0]],
        [[8, 12], [8, 13], [8, 14]],
    ],
    "directions": [3, 2, 1, 3, 1, 2],
    "beans": [],
}


def test_causes_of_death():
    actions = [3, 2, 2, 3, 1, 3]
    timeline = Timeline("a", "b", [Turn(BEFORE), Turn(BEFORE | {"turn": 4}, actions, died=(0, 1, 2, 3, 5))])
    assert [event.text for event in events(timeline) if event.kind == DEATH] == [
        "snake 0 (red) met the head of snake 1",
        "snake 1 (red) met the head of snake 0",
        "snake 2 (red) hit itself, lost 2",
        "snake 3 (blue) hit snake 4",
        "snake 5 (blue) reversed and crashed",
    ]


def test_every_death_has_a_cause_and_every_change_of_the_lead_is_listed(tmp_path):
    for match in (long_match(), wild_match(120), log_of(long_match(), tmp_path)):
        timeline = recorded_timeline(match)
        found = events(timeline)
        deaths = [(i, snake) for i, turn in enumerate(timeline.turns) for snake in turn.died]
        told = [(event.turn, int(re.match(r"snake (\d)", event.text)[1])) for event in found if event.kind == DEATH]
        assert told == deaths
        # Without a cause is only who met a head whose reversal was replaced by a random move.
        unknown = {event.turn for event in found if event.text.endswith(") crashed")}
        assert unknown <= {event.turn for event in found if "reversed" in event.text}
        leads = [event for event in found if event.kind == LEAD]
        for event in leads:
            red, blue = team_scores(timeline.turns[event.turn].state)
            assert event.team == ("red" if red > blue else "blue" if blue > red else "")
            assert event.text.endswith(f", {red} : {blue}")
        scores = map(timeline.team_scores, range(len(timeline.turns)))
        sides = ["red" if red > blue else "blue" if blue > red else "" for red, blue in scores]
        changes = [new for old, new in itertools.pairwise(sides) if new != old]
        assert [event.team for event in leads] == changes


def test_where_it_was_already_lost_and_the_decisive_turn():
    texts = {(event.turn, event.kind): event.text for event in events(recorded_timeline(long_match()))}
    assert texts[113, BOXED] == "snake 5 (blue) was already lost here: no safe move until its death on turn 116"
    assert texts[116, DEATH] == "snake 5 (blue) hit snake 1, lost 14; no safe move since turn 113"
    assert [turn for turn, kind in texts if kind == BOXED] == [113, 166]
    assert [turn for turn, kind in texts if kind == DECISIVE] == [116]
    assert texts[116, DECISIVE] == "decisive: blue's lead goes from -6 to -21"


def test_a_match_in_progress_and_a_draw_have_no_decisive_turn():
    whole = recorded_timeline(long_match())
    level = max(index for index in range(200) if len(set(whole.team_scores(index))) == 1)
    assert DECISIVE not in {event.kind for event in events(Timeline("a", "b", whole.turns[: level + 1]))}

    class InProgress(Timeline):
        over = False

    assert DECISIVE not in {event.kind for event in events(InProgress("a", "b", whole.turns))}
