"""At which turn each match slot starts again at the beginning of a run, so that matches are at different turns.

Over all slots these turns are spread evenly. So are those of any consecutive slots, like those of one rank: snakes grow
in a match, and a turn with long snakes takes longer. If a rank had all of its matches near their end, the others would
wait for it.
"""

import math

import torch

from arena.rules import TURNS

TOGETHER = {"cpu": 1, "cuda": 32}  # consecutive slots at about the same turn: threads of a GPU run in step
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it, modulo 1, are spread evenly however many there are


def stagger_turns(first: int, matches: int, all_matches: int, device: torch.device) -> torch.Tensor:
    """The turns [matches] of slots first, first + 1, ... of `all_matches`."""
    together = math.gcd(TOGETHER[device.type], all_matches)
    groups = all_matches // together
    step = max(1, round(GOLDEN * groups))
    while math.gcd(step, groups) > 1:  # every group has its own place
        step += 1
    slots = torch.arange(first, first + matches)
    places = slots // together * step % groups * together + slots % together
    return (places * TURNS // all_matches).to(device)
