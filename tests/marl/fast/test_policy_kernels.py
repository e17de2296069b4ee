"""Compiled loops choose the actions that a policy chooses in torch."""

import numpy as np
import pytest
import torch

from arena import BatchArena
from arena.encoders import encoder_named
from marl.fast.policy_kernels import choose_on_board
from marl.networks.policy import MASKED_LOGIT, mask_reversal, to_board_logits

SEED, MATCHES = 3, 40


@pytest.mark.parametrize("name", ["features", "canonical", "planes"])
def test_actions_are_those_of_torch_also_among_equals(name: str) -> None:
    print(f"seed {SEED}")
    generator, encoder = torch.Generator().manual_seed(SEED), encoder_named(name)
    arena = BatchArena(MATCHES, seed=SEED)
    arena.start()
    seats = torch.arange(MATCHES * 6, dtype=torch.int32)
    at = encoder.direction_at, -1 if encoder.orientation_at is None else encoder.orientation_at
    for turn in range(8):
        obs = arena.observe(name, seats)
        outputs = torch.randint(-turn, turn + 1, (len(seats), 5), generator=generator).float()  # first all are equal
        moves = torch.full((MATCHES, 6), -1, dtype=torch.int8)
        arrays = (outputs.numpy(), obs.numpy(), *at, np.float32(MASKED_LOGIT), seats.numpy(), moves.numpy())
        choose_on_board(*arrays)
        expected = to_board_logits(mask_reversal(outputs[:, :4], obs, encoder), obs, encoder).argmax(-1)
        assert torch.equal(moves.flatten().long(), expected), f"turn {turn}, seed {SEED}"
        arena.play_turn(moves)
