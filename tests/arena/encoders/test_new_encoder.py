"""A new encoder takes a compiled function and a line in ENCODERS; this one shows two numbers and the own direction."""

import numpy as np
import pytest
import torch

from arena import BatchArena
from arena.encoders import ENCODERS, Encoder, board_encoder, encoder_named
from arena.jit import njit
from arena.rules import DIRECTION, LENGTH, SNAKES, TURN


@njit
def encode_lengths(match, snake, shared, out):
    out[int(match[DIRECTION + snake])] = 1
    out[4] = match[LENGTH + snake]
    out[5] = shared


@njit
def turn_of(match):
    return int(match[TURN])


HIGH = np.array([1, 1, 1, 1, 200, 200], np.uint8)
LENGTHS = Encoder("lengths", 1, np.uint8, np.zeros_like(HIGH), HIGH, 1 / HIGH, encode_lengths, 0, turn_of, sparse=True)


@pytest.mark.parametrize("matches", [3, 400], ids=["one core", "all cores"])
def test_a_new_encoder_is_observed_like_the_others(matches, monkeypatch) -> None:
    monkeypatch.setitem(ENCODERS, "lengths", LENGTHS)
    arena = BatchArena(matches, seed=33)
    arena.start()
    for turn in range(3):
        arena.play_turn(torch.full((matches, SNAKES), turn))
    obs = arena.observe("lengths")
    assert obs.dtype == torch.uint8
    assert obs.shape == (matches, SNAKES, 6)
    directions, lengths = (arena.state[:, at : at + SNAKES] for at in (DIRECTION, LENGTH))
    assert torch.equal(obs[..., :4], torch.eye(4, dtype=torch.uint8)[directions.long()])
    assert torch.equal(obs[..., 4], lengths)
    assert (obs[..., 5] == 3).all()
    seats = torch.tensor([1, 5, 0], dtype=torch.int32)
    out = torch.full((3, 6), 9, dtype=torch.uint8)
    assert torch.equal(arena.observe("lengths", seats, out), obs[0, [1, 5, 0]])
    assert encoder_named("lengths") is board_encoder("lengths") is LENGTHS
