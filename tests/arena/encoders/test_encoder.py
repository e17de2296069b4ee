"""The description of an encoder: its names, and the fields that networks and rollouts rely on."""

import numpy as np
import pytest
import torch
from helpers.movers import semi_greedy_moves

from arena import ArenaError, BatchArena
from arena.encoders import ENCODERS, board_encoder, encoder_named
from arena.encoders.encoder import measure_nothing
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.rules import DIRECTION, SNAKES, UP

SEED = 32


@pytest.fixture(scope="module")
def arena() -> BatchArena:
    """Matches of different ages."""
    made = BatchArena(60, seed=SEED)
    made.start()
    generator = np.random.default_rng(SEED)
    for turn in range(60):
        made.play_turn(torch.from_numpy(semi_greedy_moves(made.state.numpy(), generator)))
        made.start(torch.arange(60) == turn)
    return made


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_found_by_its_name(name) -> None:
    assert encoder_named(name) is ENCODERS[name]
    assert encoder_named(name).name == name


def test_canonical_is_found_by_its_former_name_too(arena) -> None:
    """Snapshots and configurations may still say `turned`."""
    assert encoder_named("turned") is ENCODERS["canonical"]
    assert "turned" not in ENCODERS
    assert torch.equal(arena.observe("turned"), arena.observe("canonical"))


@pytest.mark.parametrize("name", ["turned", "canonical"])
def test_policies_of_the_plain_board_are_refused_a_turned_one(name) -> None:
    with pytest.raises(ArenaError, match="orientation"):
        board_encoder(name)


@pytest.mark.parametrize("name", ["features", "planes"])
def test_policies_of_the_plain_board_get_the_others(name) -> None:
    assert board_encoder(name) is ENCODERS[name]


@pytest.mark.parametrize("name", ENCODERS)
def test_low_high_and_scale_have_the_width_and_the_type(name) -> None:
    encoder = ENCODERS[name]
    encoder.check()
    assert encoder.low.shape == encoder.high.shape == encoder.scale.shape == (encoder.width,)
    assert encoder.low.dtype == encoder.high.dtype == encoder.dtype
    assert (encoder.low <= encoder.high).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_the_own_direction_is_one_hot_at_direction_at_as_a_local_action(arena, name) -> None:
    encoder = ENCODERS[name]
    obs = arena.observe(name).view(-1, encoder.width)
    one_hot = obs[:, encoder.direction_at : encoder.direction_at + 4]
    assert (one_hot.sum(1) == 1).all()
    directions = arena.state[:, DIRECTION : DIRECTION + SNAKES].flatten()
    orientations = encoder.orientations(obs)
    expected = LOCAL_ACTIONS[orientations.numpy(), directions.numpy()]
    assert one_hot.argmax(1).tolist() == expected.tolist(), f"seed {SEED}"
    if encoder.orientation_at is None:
        assert not orientations.any()
    else:
        assert orientations.data_ptr() == obs[:, encoder.orientation_at].data_ptr(), "a view, no copy"
        assert set(expected.tolist()) == {UP}
        assert encoder.scale[encoder.orientation_at] == 0, "not an input of networks"


@pytest.mark.parametrize("name", ENCODERS)
def test_encode_writes_one_row_of_what_the_arena_shows(arena, name) -> None:
    """The function itself, called as the loops call it: `share` once for a match, words or numbers, zeroed rows."""
    encoder = ENCODERS[name]
    state, shown = arena.state.numpy(), arena.observe(name).numpy()
    for b in (0, 17, 59):
        common = encoder.measure(state[b])
        for snake in range(SNAKES):
            row = np.full(encoder.width, 0 if encoder.sparse else 7, encoder.dtype)
            encoder.encode(state[b], snake, common, row.view(np.uint64) if encoder.words else row)
            assert row.tolist() == shown[b, snake].tolist(), f"match {b}, snake {snake}, seed {SEED}"


def test_planes_share_nothing_and_are_sparse() -> None:
    assert ENCODERS["planes"].measure is measure_nothing
    assert {name: (encoder.words, encoder.sparse) for name, encoder in ENCODERS.items()} == {
        "features": (True, False),
        "canonical": (True, False),
        "planes": (False, True),
        "egocentric": (False, True),
        "tactical": (False, True),
        "tactical_board": (False, True),
    }
