"""Matches in play, for tests of what is seen and done in the middle of them."""

import torch

from arena import BatchArena
from arena.rules import SNAKES


def in_play(matches: int, seed: int, turns: int = 40) -> BatchArena:
    """Matches after some turns of random actions."""
    arena = BatchArena(matches, seed=seed)
    arena.start()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(turns):
        arena.play_turn(torch.randint(0, 4, (matches, SNAKES), generator=generator))
    return arena
