"""A new encoder takes a compiled function and a line in ENCODERS; this one shows two numbers and the own direction."""

import re

import numba
import numpy as np
import pytest
import torch

from arena import ArenaError, BatchArena
from arena.encoder_check import check_encoder
from arena.encoders import BUILT_IN, ENCODERS, Encoder, board_encoder, encoder_named
from arena.environment import parallel_env
from arena.jit import njit
from arena.rules import DIRECTION, LENGTH, SNAKES, TURN


@njit
def encode_lengths(match, snake, common, out):
    out[int(match[DIRECTION + snake])] = 1
    out[4] = match[LENGTH + snake]
    out[5] = common


@njit
def turn_of(match):
    return int(match[TURN])


HIGH = np.array([1, 1, 1, 1, 200, 200, 1, 1], np.uint8)  # the last two numbers are always 0: 8 make a word
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
    assert obs.shape == (matches, SNAKES, 8)
    directions, lengths = (arena.state[:, at : at + SNAKES] for at in (DIRECTION, LENGTH))
    assert torch.equal(obs[..., :4], torch.eye(4, dtype=torch.uint8)[directions.long()])
    assert torch.equal(obs[..., 4], lengths)
    assert (obs[..., 5] == 3).all()
    assert not obs[..., 6:].any()
    seats = torch.tensor([1, 5, 0], dtype=torch.int32)
    out = torch.full((3, 8), 9, dtype=torch.uint8)
    assert torch.equal(arena.observe("lengths", seats, out), obs[0, [1, 5, 0]])
    assert encoder_named("lengths") is board_encoder("lengths") is LENGTHS


# --- mistakes: found before any memory is written ---------------------------------------------------------------------


@njit
def encode_behind(match, snake, common, out):
    out[8 + int(match[DIRECTION + snake])] = 1


@njit
def encode_by_length(match, snake, common, out):
    """Fits as long as the snakes are short."""
    out[int(match[LENGTH + snake]) // 8] = 1


@njit
def set_behind(out):
    out[9] = 1


@njit
def encode_by_a_callee(match, snake, common, out):
    """The bounds checks do not reach the function that it calls."""
    set_behind(out)


@njit
def encode_bytes(match, snake, common, out):
    for i in range(8):
        out[i] = 1


def refused(monkeypatch, name: str, **changes) -> str:
    """The message about a changed LENGTHS, the same from an arena and from an environment."""
    monkeypatch.setitem(ENCODERS, name, LENGTHS._replace(name=name, **changes))
    arena = BatchArena(2, seed=33)
    arena.start()
    with pytest.raises(ArenaError) as error:
        arena.observe(name)
    with pytest.raises(ArenaError, match=re.escape(str(error.value))):
        parallel_env(observation=name)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("encode", [encode_behind, encode_by_length, encode_by_a_callee])
def test_writing_outside_the_row_is_refused(encode, monkeypatch) -> None:
    said = refused(monkeypatch, "wild", encode=encode)
    assert said.startswith("encoder 'wild': ")
    assert "outside its" in said
    assert said.endswith("gets a row of 8 numbers")


@pytest.mark.parametrize(("of", "parts"), [("tactical_board", "row_parts"), ("planes", "cell_words")])
@pytest.mark.parametrize("own", ["encode", "measure"])
def test_a_gpu_never_writes_the_rows_of_the_encoder_that_one_was_made_from(of, parts, own, monkeypatch) -> None:
    changed = encoder_named(of)._replace(name="mine", **{own: encode_bytes})
    monkeypatch.setitem(ENCODERS, "mine", changed)
    with pytest.raises(ArenaError) as error:
        encoder_named("mine")
    said = f"encoder 'mine' has its own encode or measure, but on a GPU the rows of '{of}': "
    assert str(error.value) == f"{said}set cell_words and row_parts to None as well"
    for sound in (changed._replace(**{parts: None}), encoder_named(of)._replace(name="mine")):
        monkeypatch.setitem(ENCODERS, "mine", sound)
        assert encoder_named("mine") is sound


def test_single_bytes_into_a_row_of_words_are_refused(monkeypatch) -> None:
    said = refused(monkeypatch, "bytes", encode=encode_bytes, words=True)
    assert said.endswith("gets a row of 1 64-bit words (words=True)")


def test_the_same_bytes_into_a_row_of_numbers_are_right(monkeypatch) -> None:
    monkeypatch.setitem(ENCODERS, "bytes", LENGTHS._replace(name="bytes", encode=encode_bytes))
    arena = BatchArena(2, seed=33)
    arena.start()
    assert (arena.observe("bytes") == 1).all()


@pytest.mark.parametrize("name", ["features", "planes"])
def test_a_built_in_encoder_would_pass(name) -> None:
    """They are not run in use; here two are, of words and of numbers, under new descriptions. All of them stay within
    their arrays in plain Python (test_parity.py), which checks every index."""
    assert encoder_named(name) in BUILT_IN
    check_encoder(encoder_named(name)._replace(version=99))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"dtype": np.int16}, "dtype is int16; allowed: numpy's int8 and uint8"),
        ({"low": HIGH[:6], "high": HIGH[:6], "scale": HIGH[:6]}, "width is 6; need a multiple of 8"),
        ({"scale": HIGH[:6]}, "low, high and scale have the shapes (8,), (8,) and (6,)"),
        ({"direction_at": 5}, "direction_at is 5; allowed: 0 to 4"),
        ({"encode": print}, "must be compiled"),
    ],
    ids=["dtype", "width", "shapes", "direction", "not compiled"],
)
def test_a_wrong_description_is_refused(changes, part, monkeypatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    assert part in refused(monkeypatch, "odd", **changes)
