"""Noise of target policy smoothing: Gaussian, clipped, the same again for the same batch."""

import pytest
import torch
from helpers.collecting import a_buffer

from marl.learners.target_noise import TargetNoise

ROWS, KEY = 4000, 11


def drawn(batch: int, key: int, std: float = 0.2, clip: float = 10.0) -> torch.Tensor:
    buffer = a_buffer(4, 2, key=key)
    buffer.counts[1] = batch
    return TargetNoise(buffer, ROWS, std, clip).draw()


@pytest.mark.parametrize("std", [0.2, 1.5])
def test_it_is_gaussian(std) -> None:
    noise = drawn(7, KEY, std)
    assert noise.shape == (ROWS, 3, 4)
    assert noise.mean().item() == pytest.approx(0, abs=5 * std / noise.numel() ** 0.5)
    assert noise.std().item() == pytest.approx(std, rel=0.03)
    within = [(noise.abs() < times * std).float().mean().item() for times in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.01)
    assert noise.unique().numel() > 0.99 * noise.numel(), "every logit has its own"


def test_it_is_clipped() -> None:
    free, clipped = drawn(7, KEY), drawn(7, KEY, clip=0.25)
    assert free.abs().max() > 0.5
    assert torch.equal(clipped, free.clamp(-0.25, 0.25))


def test_it_belongs_to_the_batch_and_to_the_key() -> None:
    assert torch.equal(drawn(7, KEY), drawn(7, KEY))
    assert not torch.equal(drawn(7, KEY), drawn(8, KEY))
    assert not torch.equal(drawn(7, KEY), drawn(7, KEY + 1))
