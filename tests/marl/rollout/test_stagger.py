"""Matches are spread over all turns, those of each rank as well, and the same on any number of ranks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena.rules import TURNS
from marl.rollout.stagger import TOGETHER, stagger_turns

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
