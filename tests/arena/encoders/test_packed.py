"""Packed rows say what the plain rows say: in recorded games, in crowded ones, and in the kernels of a GPU."""

import numpy as np
import pytest
import torch
from helpers.movers import semi_greedy_moves
from helpers.recorded import steps

from arena import BatchArena
from arena.encoders import ENCODERS, PACKED, PACKINGS, encoder_named
from arena.encoders.packed import CODE_MAX
from arena.rules import CELLS, SNAKES

SEED = 23


@pytest.fixture(scope="module")
def positions() -> BatchArena:
    """All recorded positions, and those of long matches, in which snakes are long."""
    recorded, played = [step.before for step in steps()[::3]], BatchArena(16, seed=SEED)
    played.start()
    generator, late = np.random.default_rng(SEED), []
    for turn in range(190):
        played.play_turn(torch.from_numpy(semi_greedy_moves(played.state.numpy(), generator)))
        if turn % 63 == 62:
            late.append(played.state.clone())
    arena = BatchArena(len(recorded) + 16 * len(late))
    for i, match in enumerate(recorded):
        arena.set_match(i, match)
    arena.state[len(recorded) :] = torch.cat(late)
    return arena


@pytest.mark.parametrize("name", PACKINGS)
def test_packed_rows_unpack_to_the_plain_ones(name, positions) -> None:
    print(f"seed {SEED}")
    packing = PACKINGS[name]
    plain, packed = positions.observe(name), positions.observe(packing.packed.name)
    assert packed.shape[-1] == packing.packed.width < plain.shape[-1] / 3
    assert torch.equal(packing.unpack(packed), plain)
    assert packing.unpack(packed).dtype == plain.dtype
    assert torch.equal(packing.pack(plain), packed)
    assert packing.pack(plain).dtype == packed.dtype
    assert packed[..., : packing.cells].amax() == CODE_MAX
    for at in ("direction_at", "orientation_at"):
        there, here = getattr(packing.plain, at), getattr(packing.packed, at)
        assert (there is None) == (here is None)
        if there is not None:
            assert torch.equal(packed[..., here], plain[..., there]), at


@pytest.mark.parametrize("name", ["planes", "packed_planes"])
def test_rows_made_of_cells_are_those_of_the_encoder(name, positions) -> None:
    """As the kernels of a GPU make them."""
    encoder = encoder_named(name)
    matches, rows = positions.state.numpy()[::9], positions.observe(name).numpy()[::9].view(np.int64)
    for match, row in zip(matches, rows, strict=True):
        cells = np.array([encoder.cell_words.cell(match, cell) for cell in range(CELLS)], np.uint8)
        for snake in range(SNAKES):
            found = np.full(encoder.width // 8, -1)
            for part in range(encoder.cell_words.parts):
                encoder.cell_words.write(match, snake, cells, part, found)
            assert np.array_equal(found, row[snake])


def test_packed_encoders_are_no_choice_of_users() -> None:
    assert not PACKED.keys() & ENCODERS.keys()
    for name, packed in PACKED.items():
        assert encoder_named(name) is packed
        packed.check()


@pytest.mark.needs_cuda
@pytest.mark.parametrize("name", PACKINGS)
def test_a_gpu_writes_the_rows_of_the_cpu(name, positions) -> None:
    on_gpu = BatchArena(positions.matches, "cuda")
    on_gpu.state.copy_(positions.state)
    packed = PACKINGS[name].packed.name
    assert torch.equal(on_gpu.observe(packed).cpu(), positions.observe(packed))
