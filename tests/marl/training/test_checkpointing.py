"""Matches and buffer of a checkpoint: restored exactly, or not at all."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.training_states import LEAGUE, small_state

from marl.rollout.frozen_seats import PAST_SELVES
from marl.training.checkpointing import checkpoint_size, rank_part, restore_matches, shared_part
from marl.training.training_state import TrainingState

# Past selves play with an LSTM, and so does the team on the side that does not learn.
RECURRENT = ["--algo", "ppo_lstm", "--lstm_size", "8", *LEAGUE, "--self_play", "0.25", "--no-learn_both_sides"]


def checkpoint_with(part: dict[str, Any], world: int = 1) -> Any:
    """The part of rank 0 in place of a whole checkpoint."""
    return SimpleNamespace(parts={"rank0": {}}, manifest={"world_size": world}, part=lambda name: part)


def play(state: TrainingState, turns: int) -> None:
    state.learner.begin_round()
    for _ in range(turns):
        state.rollout.play_turn(state.learner.act)


def test_hidden_states_of_frozen_players_are_restored() -> None:
    """Past selves, and the team on the side that does not learn, are in the middle of a match."""
    first, second = small_state(*RECURRENT), small_state(*RECURRENT)
    first.rollout.arena.start()
    play(first, 4)
    assert restore_matches(second, checkpoint_with(rank_part(first)))
    assert len(first.frozen_seats) == PAST_SELVES + 1
    for mine, its in zip(first.frozen_seats, second.frozen_seats, strict=True):
        assert mine.hidden.abs().sum() > 0
        assert torch.equal(mine.hidden, its.hidden)
    for state in (first, second):
        play(state, 1)
    for mine, its in zip(first.frozen_seats, second.frozen_seats, strict=True):
        assert torch.equal(mine.hidden, its.hidden)
    assert torch.equal(first.rollout.arena.state, second.rollout.arena.state)


def test_the_settings_that_matches_depend_on_are_a_file_format() -> None:
    fits = rank_part(small_state("--encoder", "canonical"))["fits"]
    assert fits.keys() == {
        "both", "alone", "past", "seed", "matches", "turns", "encoder", "encoder_version", "rewards", "opponents",
    }  # fmt: skip
    assert fits["encoder"] == "canonical"


def test_the_size_that_is_told_is_that_of_the_files() -> None:
    state = small_state("--algo", "ddpg", "--buffer_size", "30000", "--body", "64,64")
    told = checkpoint_size(state)
    state.learner.buffer.counts[0] = 10**6  # full
    for optimizer in state.learner.optimizers().values():
        optimizer.steps.fill_(1)  # only then it has a state
    files = [io.BytesIO() for _ in range(3)]
    parts = (dict(state.learner.named_weights()), shared_part(state, closed=False), rank_part(state))
    for part, file in zip(parts, files, strict=True):
        torch.save(part, file)
    weights, shared, ranks = (len(file.getvalue()) for file in files)
    assert weights + shared == pytest.approx(told.shared, rel=0.3), "and what torch writes around tensors"
    assert ranks == pytest.approx(told.ranks, rel=0.02)
    assert told.left_out == 0
    without = checkpoint_size(small_state("--algo", "ddpg", "--buffer_size", "30000", "--save_buffer", "0"))
    assert (without.ranks, without.left_out) == (0, state.buffer.bytes)


@pytest.mark.parametrize("name", ["canonical", "turned"])
def test_an_encoder_fits_by_its_former_name_too(name) -> None:
    first, second = (small_state("--encoder", "canonical") for _ in range(2))
    first.rollout.arena.start()
    play(first, 4)
    part = rank_part(first)
    part["fits"]["encoder"] = name
    assert restore_matches(second, checkpoint_with(part))
    assert torch.equal(first.rollout.arena.state, second.rollout.arena.state)


@pytest.mark.parametrize(
    ("key", "value"), [("seed", 3), ("matches", 8), ("encoder", "features"), ("encoder", "unheard_of"), ("past", 1)]
)
def test_other_settings_do_not_fit(key, value) -> None:
    state = small_state("--encoder", "canonical")
    part = rank_part(state)
    part["fits"][key] = value
    assert not restore_matches(state, checkpoint_with(part))


def test_another_number_of_ranks_does_not_fit() -> None:
    state = small_state()
    assert not restore_matches(state, checkpoint_with(rank_part(state), world=2))


def test_packed_rows_of_earlier_versions_are_played_again() -> None:
    """Not an error: the team goes on with a buffer that is filled anew."""
    argv = ["--algo", "ddpg"]
    first, second = small_state(*argv), small_state(*argv)
    first.rollout.arena.start()
    play(first, 4)
    part = rank_part(first)
    assert restore_matches(second, checkpoint_with(part))
    rows = part["learner"]["buffer"]["observations"]
    part["learner"]["buffer"]["observations"] = rows[..., :-8]
    assert not restore_matches(second, checkpoint_with(part))
