"""`tactical` and `tactical_board` in numpy are the arena's: dead ends, tails that may stay, full boards."""

from functools import cache

import numpy as np
import pytest
import torch
from helpers.drawn_boards import CIRCLE, PLACES, draw
from helpers.exporting import recorded_states

from arena import BatchArena
from arena.encoders import encoder_named
from arena.encoders.tactical import T_DEAD_END, T_NUMBERS, T_OPEN, T_TAIL
from arena.match_dict import to_dict
from arena.rules import ACTIONS, CELLS, COLUMNS, LENGTH, OVER, SNAKES, TURN
from marl.export.batched_tactical_template import BATCHED
from marl.export.simulation_template import Simulation
from marl.export.submission_template import Match
from marl.export.tactical_template import ENCODERS

EACH = 16  # positions of each kind


def numbers_of_actions(arena: BatchArena) -> torch.Tensor:
    """[N, 6, 4, 8]."""
    return arena.observe("tactical")[..., -ACTIONS * T_NUMBERS :].unflatten(-1, (ACTIONS, T_NUMBERS))


def holding(states: torch.Tensor) -> BatchArena:
    arena = BatchArena(len(states))
    arena.state.copy_(states)
    return arena


@cache
def positions() -> BatchArena:
    """Positions of the original game that are hard to search, and drawn rooms with and without a way on."""
    states = recorded_states()
    lengths = states[:, LENGTH : LENGTH + SNAKES]
    states = states[(lengths > 0).all(1) & (states[:, OVER] == 0)]
    numbers = numbers_of_actions(holding(states))
    crowd = states[:, LENGTH : LENGTH + SNAKES].long().sum(1)
    dead_ends, tails = numbers[..., T_DEAD_END].sum((1, 2)), numbers[..., T_TAIL].sum((1, 2))
    shut = (numbers[..., T_OPEN].sum(2) == 0).sum(1)
    picked = torch.cat([kind.topk(EACH).indices for kind in (crowd, dead_ends, tails, shut)]).unique()
    drawn = [draw(CIRCLE[length], at, swap) for length in CIRCLE for at in PLACES for swap in (False, True)]
    arena = BatchArena(len(drawn))
    for i, match in enumerate(drawn):
        arena.set_match(i, match)
    return holding(torch.cat((states[picked], arena.state)))


def cells(places: list) -> list[int]:
    return [row * COLUMNS + column for row, column in places]


def match_of(state: torch.Tensor) -> Match:
    match = to_dict(state.numpy())
    bodies = [cells(body) for body in match["snakes"]]
    return Match(int(state[TURN]), bodies, list(match["directions"]), cells(match["beans"]))


@pytest.mark.parametrize("encoder", ["tactical", "tactical_board"])
def test_the_numbers_are_the_arenas(encoder) -> None:
    arena = positions()
    for state, expected in zip(arena.state, arena.observe(encoder).numpy(), strict=True):
        match = match_of(state)
        for snake in range(SNAKES):
            obs, orientation = ENCODERS[encoder](match, snake)
            assert obs.tolist() == expected[snake].tolist(), f"snake {snake}: {to_dict(state.numpy())}"
            assert orientation == expected[snake, encoder_named(encoder).orientation_at]


@pytest.mark.parametrize("encoder", ["tactical", "tactical_board"])
@pytest.mark.parametrize("numpy_counts", [True, False])
def test_all_seats_of_many_matches_at_once_are_the_arenas(encoder, numpy_counts, monkeypatch) -> None:
    """With numpy's count of bits, and with the table for numpy before version 2."""
    if not numpy_counts:
        monkeypatch.delattr(np, "bitwise_count", raising=False)
    arena = positions()
    obs, orientations = BATCHED[encoder](Simulation([match_of(state) for state in arena.state]))
    expected = arena.observe(encoder).numpy().reshape(obs.shape)
    wrong = np.argwhere(obs != expected)
    assert not len(wrong), f"seat and number: {wrong[:5].tolist()}"
    assert np.array_equal(orientations.reshape(-1), expected[:, encoder_named(encoder).orientation_at])


def test_the_positions_hold_what_is_hard_to_search() -> None:
    numbers = numbers_of_actions(positions())
    assert (numbers[..., T_DEAD_END] > 0).sum() > 30
    assert (numbers[..., T_TAIL] > 0).sum() > 20
    assert (numbers[..., T_OPEN].sum(2) == 0).sum() > 10
    assert positions().state[:, LENGTH : LENGTH + SNAKES].long().sum(1).max() > CELLS * 3 // 4
