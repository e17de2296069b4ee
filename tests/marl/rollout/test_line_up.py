"""Who sits where: shares of the matches, dealt in pairs, the same for any number of ranks."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.learners.factory import make_assignment
from marl.rollout.assignment import MatchAssignment, assign_matches
from opponents.scheduler import Scheduler


def roles(line_up: MatchAssignment) -> list[str]:
    """What every slot is for."""
    found = ["schedule"] * line_up.matches
    named = {"both": line_up.both, "alone": line_up.alone}
    named |= {f"past{place}": slots for place, slots in enumerate(line_up.past)}
    for role, slots in named.items():
        for slot in slots:
            assert found[slot] == "schedule", f"slot {slot} is dealt twice"
            found[slot] = role
    return found


def shift(slots, by: int) -> tuple[int, ...]:
    return tuple(slot + by for slot in slots)


@pytest.mark.parametrize(
    ("matches", "shares", "expected"),
    [
        (8, {}, {"schedule": 8}),
        (8, {"both": 0.25}, {"both": 2, "schedule": 6}),
        (8, {"both": 1.0}, {"both": 8}),
        (8, {"alone": 0.5}, {"alone": 4, "schedule": 4}),
        (40, {"both": 0.1, "alone": 0.2, "past": 0.5}, {"both": 4, "alone": 8, "past0": 20, "schedule": 8}),
        (40, {"past": 0.4, "places": 4}, {f"past{i}": 4 for i in range(4)} | {"schedule": 24}),
        (40, {"both": 0.5, "past": 0.5, "places": 2}, {"both": 20, "past0": 10, "past1": 10}),
        (256, {"past": 0.7, "places": 4}, {f"past{i}": 46 - 2 * (i > 1) for i in range(4)} | {"schedule": 76}),
        (40, {"both": 0.12}, {"both": 4, "schedule": 36}),  # the nearest pairs
        (2, {"both": 0.4}, {"schedule": 2}),
        (2, {"both": 0.6}, {"both": 2}),
        (4, {"both": 1.0, "past": 1.0, "places": 2}, {"both": 4}),  # more than there are: the first come first
        (8, {"past": 1.0, "places": 8}, {f"past{i}": 2 for i in range(4)}),  # a pair is not cut in two
        (8, {"past": 0.7, "places": 4}, {"past0": 2, "past1": 2, "past2": 2, "schedule": 2}),
    ],
)
def test_shares_of_the_matches(matches, shares, expected) -> None:
    assert Counter(roles(assign_matches(matches, **shares))) == (expected or {"schedule": matches})


shares = st.fixed_dictionaries(
    {
        "matches": st.integers(1, 150).map(lambda pairs: 2 * pairs),
        "both": st.floats(0, 1),
        "alone": st.floats(0, 1),
        "past": st.floats(0, 1),
        "places": st.integers(1, 5),
    }
)


@given(shares)
def test_every_role_plays_as_often_red_as_blue_and_no_slot_has_two(given_shares) -> None:
    line_up = assign_matches(**given_shares)
    of_slots = roles(line_up)
    assert of_slots[::2] == of_slots[1::2], "a slot that plays red and the next one, blue, are alike"
    assert line_up.teams == line_up.matches + len(line_up.both)
    assert all(line_up.past), "no place without a match"


@given(st.lists(st.integers(0, 6), min_size=4, max_size=8).filter(any))
def test_twice_the_matches_are_the_same_deal_twice(pairs) -> None:
    """Whatever the shares are, as long as they come out even."""
    both, alone, rest, past, *places = pairs
    count, of_past = 1 + len(places), past * (1 + len(places))
    all_pairs = both + alone + rest + of_past
    if not all_pairs:
        return
    dealt = {"both": both / all_pairs, "alone": alone / all_pairs, "past": of_past / all_pairs, "places": count}
    once, twice = assign_matches(2 * all_pairs, **dealt), assign_matches(4 * all_pairs, **dealt)
    assert len(once.both) == 2 * both
    assert len(once.alone) == 2 * alone
    assert [len(place) for place in once.past] == [2 * past] * (count if past else 0)
    assert twice.both == once.both + shift(once.both, 2 * all_pairs)
    assert twice.alone == once.alone + shift(once.alone, 2 * all_pairs)
    assert twice.past == tuple(place + shift(place, 2 * all_pairs) for place in once.past)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_a_role_is_spread_evenly_over_the_slots(share) -> None:
    """Matches start one after the other in slot order, so every stretch of turns has its part of all of them."""
    slots = assign_matches(400, both=share).both
    for begin in range(0, 400, 40):
        assert sum(begin <= slot < begin + 40 for slot in slots) == round(40 * share)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"schedule": 80}),
        (["--self_play", "0.25"], {"both": 20, "schedule": 60}),
        (["--self_play", "0.25", "--no-learn_both_sides"], {"alone": 20, "schedule": 60}),
        (["--strategy", "league"], {f"past{i}": 14 for i in range(PAST_SELVES)} | {"schedule": 24}),
        (
            ["--strategy", "league", "--self_play", "0.2", "--league_scripted_share", "0.5"],
            {"both": 16, **{f"past{i}": 8 for i in range(PAST_SELVES)}, "schedule": 32},
        ),
        (["--strategy", "league", "--self_play", "1"], {"both": 80}),
    ],
)
def test_what_a_configuration_asks_for(words, expected) -> None:
    config = read_config(["--matches", "80", *words])
    assert Counter(roles(make_assignment(config, Scheduler(config.schedule)))) == expected


def test_auto_matches_can_be_dealt() -> None:
    """As many as a run plays without being told."""
    config = resolve(read_config(["--strategy", "league", "--self_play", "0.3"]), torch.device("cpu"))
    dealt = Counter(roles(make_assignment(config, Scheduler(config.schedule))))
    assert {role: round(count / config.matches, 2) for role, count in dealt.items()} == {
        **{f"past{i}": pytest.approx(0.49 / PAST_SELVES, abs=0.01) for i in range(PAST_SELVES)},
        "both": pytest.approx(0.3, abs=0.01),
        "schedule": pytest.approx(0.21, abs=0.02),
    }
