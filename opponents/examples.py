"""Examples of the lost matches of each side of a pair: a few of each, however many are played."""

from collections.abc import Sequence

import numpy as np
import torch

from opponents.results import Examples, RecordedMatches


def join_examples(
    parts: Sequence[Examples | None],
) -> Examples | None:
    """The examples of all parts; None if there are none."""
    kept = [part for part in parts if part is not None]
    if not kept:
        return None
    home, away = zip(*kept, strict=True)
    return RecordedMatches.joined(home), RecordedMatches.joined(away)


def first_examples(examples: Examples | None, most: int) -> Examples | None:
    """At most so many of each side."""
    if examples is None:
        return None
    home, away = (of.chosen(np.arange(min(most, len(of.numbers)))) for of in examples)
    return home, away


def find_examples(
    numbers: np.ndarray, side: np.ndarray, score: np.ndarray, forfeit: np.ndarray, actions: torch.Tensor, most: int
) -> Examples:
    """The first matches of a batch that home lost, and those that away lost."""
    lead = np.where(forfeit.any(1), 0, score[:, 0] - score[:, 1])
    found = []
    for loser, sides in ((-1, side), (1, 1 - side)):
        which = np.flatnonzero(np.sign(lead) == loser)[:most]
        chosen = actions[:, torch.from_numpy(which).to(actions.device)].cpu()
        found.append(RecordedMatches(numbers[which], sides[which], chosen))
    return found[0], found[1]
