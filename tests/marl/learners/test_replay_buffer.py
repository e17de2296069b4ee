"""The replay buffer: a ring of turns, stored as the encoder's bytes, drawn from without leaving its device."""

import pytest
import torch
from helpers.collecting import CPU, a_buffer

from arena import BatchArena
from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.learners.replay_buffer import BatchRows, ReplayBuffer
from marl.storage.saver import on_host

ENCODERS = {"features": torch.int8, "canonical": torch.int8, "planes": torch.uint8}
ELSEWHERE = torch.device("cpu:0")  # not equal to "cpu", so the ways for a buffer on the host are taken


def rows_of(buffer: ReplayBuffer, number: int) -> torch.Tensor:
    """Bytes of all values, other ones for every turn."""
    generator = torch.Generator().manual_seed(number)
    shape = (buffer.teams * TEAM, buffer.encoder.width)
    low = -128 if buffer.dtype == torch.int8 else 0
    return torch.randint(low, low + 256, shape, generator=generator).to(buffer.dtype)


def write(buffer: ReplayBuffer, number: int) -> None:
    """Turn `number`, as a rollout and its loop would write it."""
    at = number % buffer.turns
    buffer.write_obs(rows_of(buffer, number))
    buffer.actions[at] = number % 4
    buffer.rewards[at] = float(number)
    buffer.terminated[at] = False
    buffer.advance()


def tensors_of(buffer: ReplayBuffer, batch: BatchRows) -> dict[str, torch.Tensor]:
    obs, next_obs = buffer.obs_at(batch.idx), buffer.obs_at(batch.next_idx)
    return {**batch._asdict(), "obs": obs, "next_obs": next_obs}


def seen(buffer: ReplayBuffer, number: int) -> torch.Tensor:
    return rows_of(buffer, number).view(buffer.teams, TEAM, -1)


@pytest.mark.parametrize("storage", [None, ELSEWHERE], ids=["device", "elsewhere"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_observations_are_kept_exactly_as_a_ring(encoder, storage) -> None:
    buffer = a_buffer(5, 4, encoder, storage=storage)
    for number in range(13):
        write(buffer, number)
        assert buffer.counts.tolist() == [number + 1, 0]
        for held in range(max(0, number - 4), number + 1):
            assert torch.equal(buffer.obs[held % 5], seen(buffer, held)), f"turn {held} after turn {number}"


@pytest.mark.parametrize(("encoder", "dtype"), ENCODERS.items())
def test_bytes_are_those_of_the_encoder(encoder, dtype) -> None:
    buffer = a_buffer(6, 4, encoder)
    assert buffer.obs.dtype == dtype
    assert buffer.obs_at(torch.zeros(8, dtype=torch.int64)).dtype == dtype


@pytest.mark.parametrize("encoder", ENCODERS)
def test_what_an_arena_shows_fits_and_survives(encoder) -> None:
    arena = BatchArena(4, seed=3)
    arena.start()
    seats = torch.tensor([0, 1, 2, 9, 10, 11, 12, 13, 14, 21, 22, 23], dtype=torch.int32)
    rows = arena.observe(encoder, seats)
    buffer = a_buffer(3, 4, encoder)
    buffer.write_obs(rows)
    assert torch.equal(buffer.obs[0].flatten(0, 1), rows)
    assert rows.any()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_transition_costs_what_the_documentation_says(encoder) -> None:
    buffer = a_buffer(7, 10, encoder)
    width, transitions = encoder_named(encoder).width, 7 * 10 * TEAM
    tensors = (buffer.obs, buffer.actions, buffer.rewards, buffer.terminated)
    assert buffer.bytes == sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    assert transitions * (width + 5) < buffer.bytes <= transitions * (width + 6)


def test_a_write_touches_one_row_and_moves_no_memory() -> None:
    buffer = a_buffer(4, 2)
    for number in range(4):
        write(buffer, number)
    places = [tensor.data_ptr() for tensor in (buffer.obs, buffer.actions, buffer.rewards, buffer.counts)]
    before = buffer.obs.clone()
    buffer.write_obs(rows_of(buffer, 99))
    changed = (buffer.obs != before).flatten(1).any(1).tolist()
    assert changed == [True, False, False, False]
    for number in range(4, 40):
        write(buffer, number)
    after = [tensor.data_ptr() for tensor in (buffer.obs, buffer.actions, buffer.rewards, buffer.counts)]
    assert after == places


@pytest.mark.parametrize("storage", [None, ELSEWHERE], ids=["device", "elsewhere"])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_batch_is_made_of_rows_that_were_written(n_step, encoder, storage) -> None:
    buffer = a_buffer(6, 4, encoder, storage=storage)
    sampler = buffer.sampler(16, n_step, 0.5)
    for number in range(17):
        write(buffer, number)
    for update in range(5):
        batch = sampler.draw()
        tensors = tensors_of(buffer, batch)
        assert buffer.counts.tolist() == [17, update + 1]
        for i in range(16):
            at, team = divmod(int(batch.idx[i]), 4)
            number = int(buffer.rewards[at, team, 0])
            assert 11 <= number < 17 - n_step
            assert torch.equal(tensors["obs"][i], seen(buffer, number)[team])
            assert torch.equal(tensors["next_obs"][i], seen(buffer, number + n_step)[team])
            assert batch.returns[i].tolist() == [sum((number + n) * 0.5**n for n in range(n_step))] * TEAM
            assert batch.discounts[i] == 0.5**n_step
            assert batch.actions[i].argmax(-1).tolist() == [number % 4] * TEAM
            assert batch.actions[i].sum(-1).tolist() == [1.0] * TEAM


def test_storage_elsewhere_changes_nothing_that_is_drawn() -> None:
    here, there = a_buffer(6, 4), a_buffer(6, 4, storage=ELSEWHERE)
    assert here.storage == CPU
    samplers = [buffer.sampler(24, 2, 0.9) for buffer in (here, there)]
    for number in range(9):
        for buffer in (here, there):
            write(buffer, number)
    for _ in range(3):
        a, b = (sampler.draw() for sampler in samplers)
        for name, tensor in tensors_of(here, a).items():
            assert torch.equal(tensor, tensors_of(there, b)[name]), name


def test_every_batch_comes_in_the_same_tensors_with_other_rows() -> None:
    buffer = a_buffer(40, 4)
    for number in range(40):
        write(buffer, number)
    sampler = buffer.sampler(32, 1, 0.9)
    first = sampler.draw()
    places = [tensor.data_ptr() for tensor in first]
    idx = first.idx.clone()
    again = sampler.draw()
    assert [tensor.data_ptr() for tensor in again] == places
    assert (again.idx != idx).float().mean() > 0.9


def test_ranks_draw_other_batches() -> None:
    a, b = (a_buffer(40, 4, key=key) for key in (1, 2))
    for buffer in (a, b):
        for number in range(40):
            write(buffer, number)
    first, second = (buffer.sampler(32, 1, 0.9).draw().idx for buffer in (a, b))
    assert (first != second).float().mean() > 0.9


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("written", [0, 3, 6, 17])
def test_a_buffer_that_was_saved_goes_on_identically(written, encoder) -> None:
    first, second = a_buffer(6, 4, encoder), a_buffer(6, 4, encoder)
    for number in range(written):
        write(first, number)
    if written > 2:
        first.sampler(8, 2, 0.9).draw()
    saved = on_host(first.written())
    assert len(saved["observations"]) == min(written, 6), "only what has been written"
    write(first, written)  # what was saved are copies
    second.load_state_dict(saved)
    write(second, written)
    for number in range(written + 1, written + 4):
        write(first, number)
        write(second, number)
    samplers = [buffer.sampler(16, 2, 0.9) for buffer in (first, second)]
    for _ in range(2):
        a, b = (sampler.draw() for sampler in samplers)
        for name, tensor in tensors_of(first, a).items():
            assert torch.equal(tensor, tensors_of(second, b)[name]), name
