"""The assignment of matches: shares of them, assigned in pairs, the same for any number of ranks."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena.rules import TURNS
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.learners.factory import make_assignment
from marl.rollout.assignment import TOGETHER, MatchAssignment, assign_matches, stagger_turns
from marl.rollout.frozen_seats import PAST_SELVES
from opponents.scheduler import Scheduler


def roles(assignment: MatchAssignment) -> list[str]:
    """The role of every slot."""
    found = ["schedule"] * assignment.matches
    named = {"both": assignment.self_play_both, "one": assignment.self_play_one}
    named |= {f"past{i}": slots for i, slots in enumerate(assignment.past_selves)}
    named |= {f"named{i}": slots for i, slots in enumerate(assignment.named)}
    for role, slots in named.items():
        for slot in slots:
            assert found[slot] == "schedule", f"slot {slot} is assigned twice"
            found[slot] = role
    return found


def shift(slots, by: int) -> tuple[int, ...]:
    return tuple(slot + by for slot in slots)


@pytest.mark.parametrize(
    ("matches", "shares", "expected"),
    [
        (8, {}, {"schedule": 8}),
        (8, {"self_play_both": 0.25}, {"both": 2, "schedule": 6}),
        (8, {"self_play_both": 1.0}, {"both": 8}),
        (8, {"self_play_one": 0.5}, {"one": 4, "schedule": 4}),
        (
            40,
            {"self_play_both": 0.1, "self_play_one": 0.2, "past_selves": 0.5},
            {"both": 4, "one": 8, "past0": 20, "schedule": 8},
        ),
        (40, {"past_selves": 0.4, "seats": 4}, {f"past{i}": 4 for i in range(4)} | {"schedule": 24}),
        (40, {"self_play_both": 0.5, "past_selves": 0.5, "seats": 2}, {"both": 20, "past0": 10, "past1": 10}),
        (256, {"past_selves": 0.7, "seats": 4}, {f"past{i}": 46 - 2 * (i > 1) for i in range(4)} | {"schedule": 76}),
        (40, {"self_play_both": 0.12}, {"both": 4, "schedule": 36}),  # the nearest pairs
        (2, {"self_play_both": 0.4}, {"schedule": 2}),
        (2, {"self_play_both": 0.6}, {"both": 2}),
        (
            4,
            {"self_play_both": 1.0, "past_selves": 1.0, "seats": 2},
            {"both": 4},
        ),  # more than there are: the first come first
        (8, {"past_selves": 1.0, "seats": 8}, {f"past{i}": 2 for i in range(4)}),  # a pair is not cut in two
        (8, {"past_selves": 0.7, "seats": 4}, {"past0": 2, "past1": 2, "past2": 2, "schedule": 2}),
        (40, {"named": (0.4, 0.1)}, {"named0": 16, "named1": 4, "schedule": 20}),
        (10, {"named": (0.4, 0.2, 0.2, 0.1, 0.1)}, {"named0": 4, "named1": 2, "named2": 2, "named4": 2}),  # to pairs
        (6, {"named": (0.5, 0.5)}, {"named0": 4, "named1": 2}),  # no match is left over
        (20, {"self_play_both": 0.25, "named": (0.75,)}, {"both": 4, "named0": 16}),
        (10, {"self_play_both": 0.5, "named": (0.5,)}, {"both": 4, "named0": 6}),  # both round down: the rest is named
        (10, {"past_selves": 0.5, "named": (0.25, 0.25)}, {"past0": 4, "named0": 2, "named1": 4}),
        (
            10,
            {"self_play_both": 0.5, "named": (0.4,)},
            {"both": 4, "named0": 4, "schedule": 2},
        ),  # the shares leave some
        (
            40,
            {"self_play_one": 0.2, "past_selves": 0.4, "named": (0.2,)},
            {"one": 8, "past0": 16, "named0": 8, "schedule": 8},
        ),
    ],
)
def test_shares_of_the_matches(matches, shares, expected) -> None:
    assert Counter(roles(assign_matches(matches, **shares))) == (expected or {"schedule": matches})


shares = st.fixed_dictionaries(
    {
        "matches": st.integers(1, 150).map(lambda pairs: 2 * pairs),
        "self_play_both": st.floats(0, 1),
        "self_play_one": st.floats(0, 1),
        "past_selves": st.floats(0, 1),
        "seats": st.integers(1, 5),
        "named": st.lists(st.floats(0.01, 0.3), max_size=3),
    }
)


@given(shares)
def test_every_role_plays_as_often_red_as_blue_and_no_slot_has_two(given_shares) -> None:
    assignment = assign_matches(**given_shares)
    of_slots = roles(assignment)
    assert of_slots[::2] == of_slots[1::2], "a slot that plays red and the next one, blue, have the same role"
    assert assignment.teams == assignment.matches + len(assignment.self_play_both)
    assert all(assignment.past_selves), "no past self without a match"
    assert assignment.scheduled == of_slots.count("schedule")


@given(st.lists(st.integers(0, 6), min_size=4, max_size=8).filter(any))
def test_twice_the_matches_are_the_same_assignment_twice(pairs) -> None:
    """Whatever the shares are, as long as they divide."""
    both, one, rest, past, *more = pairs
    seats, of_past = 1 + len(more), past * (1 + len(more))
    all_pairs = both + one + rest + of_past
    if not all_pairs:
        return
    given_shares = (both / all_pairs, one / all_pairs, of_past / all_pairs, seats)
    once, twice = assign_matches(2 * all_pairs, *given_shares), assign_matches(4 * all_pairs, *given_shares)
    assert len(once.self_play_both) == 2 * both
    assert len(once.self_play_one) == 2 * one
    assert [len(slots) for slots in once.past_selves] == [2 * past] * (seats if past else 0)
    assert twice.self_play_both == once.self_play_both + shift(once.self_play_both, 2 * all_pairs)
    assert twice.self_play_one == once.self_play_one + shift(once.self_play_one, 2 * all_pairs)
    assert twice.past_selves == tuple(slots + shift(slots, 2 * all_pairs) for slots in once.past_selves)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_a_role_is_spread_evenly_over_the_slots(share) -> None:
    """Matches start one after the other in slot order, so every stretch of turns has its part of all of them."""
    slots = assign_matches(400, self_play_both=share).self_play_both
    for begin in range(0, 400, 40):
        assert sum(begin <= slot < begin + 40 for slot in slots) == round(40 * share)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"schedule": 80}),
        (["--self_play", "0.25"], {"both": 20, "schedule": 60}),
        (["--self_play", "0.25", "--no-learn_both_sides"], {"one": 20, "schedule": 60}),
        (["--strategy", "league"], {f"past{i}": 14 for i in range(PAST_SELVES)} | {"schedule": 24}),
        (
            ["--strategy", "league", "--self_play", "0.2", "--league_scripted_share", "0.5"],
            {"both": 16, **{f"past{i}": 8 for i in range(PAST_SELVES)}, "schedule": 32},
        ),
        (["--strategy", "league", "--self_play", "1"], {"both": 80}),
        (["--opponents", "champion:0.3,level1:0.7"], {"named0": 24, "named1": 56}),
        (
            ["--strategy", "league", "--self_play", "0.25", "--opponents", "champion:0.25"],
            {"both": 20, "named0": 20, **{f"past{i}": 8 - 2 * (i > 1) for i in range(PAST_SELVES)}, "schedule": 12},
        ),
    ],
)
def test_what_a_configuration_asks_for(words, expected) -> None:
    config = read_config(["--matches", "80", *words])
    assert Counter(roles(make_assignment(config, Scheduler(config.schedule)))) == expected


def test_the_automatic_number_of_matches_can_be_assigned() -> None:
    config = resolve(read_config(["--strategy", "league", "--self_play", "0.3"]), torch.device("cpu"))
    assigned = Counter(roles(make_assignment(config, Scheduler(config.schedule))))
    assert {role: round(count / config.matches, 2) for role, count in assigned.items()} == {
        **{f"past{i}": pytest.approx(0.49 / PAST_SELVES, abs=0.01) for i in range(PAST_SELVES)},
        "both": pytest.approx(0.3, abs=0.01),
        "schedule": pytest.approx(0.21, abs=0.02),
    }


CPU = torch.device("cpu")


def turns_of(all_matches: int, ranks: int = 1, device: torch.device = CPU) -> list[torch.Tensor]:
    each = all_matches // ranks
    return [stagger_turns(rank * each, each, all_matches, device) for rank in range(ranks)]


@given(st.integers(1, 3000))
def test_all_slots_are_spread_evenly(matches) -> None:
    (turns,) = turns_of(matches)
    assert turns.sort().values.tolist() == [slot * TURNS // matches for slot in range(matches)]


@pytest.mark.parametrize(("matches", "ranks"), [(512, 16), (512, 8), (256, 16), (256, 2), (4096, 8), (510, 3)])
def test_the_matches_of_a_rank_are_spread_evenly(matches, ranks) -> None:
    """By the largest gap between the turns of two matches of a rank: about three times that of an even spread."""
    for turns in turns_of(matches, ranks):
        found = turns.sort().values
        gaps = torch.cat((found.diff(), found[:1] + TURNS - found[-1:]))
        assert gaps.max() <= 3 * TURNS / len(found) + 2  # turns are whole numbers
        assert abs(found.float().mean() - TURNS / 2) < 8


@given(st.integers(1, 12), st.integers(1, 60))
def test_ranks_divide_the_same_slots(ranks, each) -> None:
    (whole,) = turns_of(ranks * each)
    assert torch.equal(torch.cat(turns_of(ranks * each, ranks)), whole)


def test_threads_of_a_gpu_that_run_in_step_are_at_about_the_same_turn(monkeypatch) -> None:
    monkeypatch.setitem(TOGETHER, "cpu", TOGETHER["cuda"])
    (turns,) = turns_of(4096)
    of_warps = turns.view(-1, TOGETHER["cuda"])
    assert (of_warps.max(1).values - of_warps.min(1).values).max() <= 2
    assert len(of_warps[:, 0].unique()) > 100
