"""Noise for target policy smoothing (TD3): clipped Gaussian numbers for the logits of a batch. M = rows of a batch.

Drawn by number like the batches themselves: a resumed run draws the same noise.
"""

import math

import torch

from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rng import DRAW_RANGE, SLOT_TARGET_NOISE, draw
from arena.rules import ACTIONS, TEAM
from marl.learners.replay_buffer import ReplayBuffer


@njit
def draw_noise(i, key, counts, std, clip, noise):
    """Row i of the noise [M, 3, 4] for the present batch."""
    batch = int(counts[1])
    for k in range(TEAM):
        for action in range(ACTIONS):
            slot = SLOT_TARGET_NOISE + 2 * ((i * TEAM + k) * ACTIONS + action)
            radius = math.sqrt(-2.0 * math.log((draw(key, batch, slot) + 1.0) / DRAW_RANGE))
            angle = 2.0 * math.pi * (draw(key, batch, slot + 1) / DRAW_RANGE)
            noise[i, k, action] = min(max(std * radius * math.cos(angle), -clip), clip)


draw_noises = item_loop(draw_noise)


class TargetNoise:
    """Noise [M, 3, 4] of the batch that was drawn last, always in the same tensor."""

    def __init__(self, buffer: ReplayBuffer, rows: int, std: float, clip: float) -> None:
        self.noise = torch.zeros(rows, TEAM, ACTIONS, device=buffer.device)
        self._draw = draw_noises.bind(rows, buffer.device, buffer.key, buffer.counts, std, clip, self.noise)

    def draw(self) -> torch.Tensor:
        """The noise of the present batch."""
        self._draw()
        return self.noise
