"""Noise of target policy smoothing: Gaussian, clipped, the same again for the same batch, shard by shard."""

import pytest
import torch
from helpers.collecting import a_buffer

from marl.learners.target_noise import TargetNoise

ROWS, KEYS = 4000, [11, 12]


def drawn(batch: int, keys: list[int], std: float = 0.2, clip: float = 10.0, rows: int = ROWS) -> torch.Tensor:
    buffer = a_buffer(4, 2, keys=keys)
    buffer.counts[1] = batch
    return TargetNoise(buffer, rows, std, clip).draw()


@pytest.mark.parametrize("std", [0.2, 1.5])
def test_it_is_gaussian(std) -> None:
    noise = drawn(7, KEYS[:1], std)
    assert noise.shape == (ROWS, 3, 4)
    assert noise.mean().item() == pytest.approx(0, abs=5 * std / noise.numel() ** 0.5)
    assert noise.std().item() == pytest.approx(std, rel=0.03)
    within = [(noise.abs() < times * std).float().mean().item() for times in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.01)
    assert noise.unique().numel() > 0.99 * noise.numel(), "every logit has its own"


def test_it_is_clipped() -> None:
    free, clipped = drawn(7, KEYS[:1]), drawn(7, KEYS[:1], clip=0.25)
    assert free.abs().max() > 0.5
    assert torch.equal(clipped, free.clamp(-0.25, 0.25))


def test_it_belongs_to_the_batch_and_to_the_shard() -> None:
    assert torch.equal(drawn(7, KEYS), drawn(7, KEYS))
    assert not torch.equal(drawn(7, KEYS), drawn(8, KEYS))
    each = [drawn(7, [key], rows=ROWS // 2) for key in KEYS]
    assert torch.equal(drawn(7, KEYS), torch.cat(each)), "as if each shard were alone"
