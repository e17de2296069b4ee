"""The parts of a checkpoint of another number of ranks, regrouped for this one.

Only for runs with exact_ranks: ranks hold equal parts of the run's shards, in order. So a part for twice as many ranks
is half of a saved part, and a part for half as many ranks is two saved parts side by side.
"""

from collections.abc import Sequence
from typing import Any

import torch

# The dimension in which shards stand side by side.
MATCHES = 0  # of a rollout's tensors
TEAMS = 1  # of a buffer's tensors and of hidden states


def sources_of(rank: int, world: int, saved: int) -> range:
    """The ranks, of `saved` ranks, whose parts hold the shards of this rank of `world` ranks."""
    first = rank * saved // world
    return range(first, max(first + 1, (rank + 1) * saved // world))


def regroup(parts: Sequence[dict[str, Any]], rank: int, world: int, saved: int) -> dict[str, Any]:
    """The part of this rank, from the parts of all its sources."""
    pieces = max(1, world // saved)  # that a saved part is cut into
    piece = rank % pieces

    def join(tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        return torch.cat(list(tensors), dim).tensor_split(pieces, dim)[piece]

    def join_all(states: Sequence[dict[str, torch.Tensor]], dim: int) -> dict[str, torch.Tensor]:
        return {name: join([state[name] for state in states], dim) for name in states[0]}

    learners = [part["learner"] for part in parts]
    # Statistics since the last log line, to be summed over all ranks: one piece takes them.
    sums = torch.stack([learner["sums"] for learner in learners]).sum(0)
    learner: dict[str, Any] = {"sums": sums if piece == 0 else torch.zeros_like(sums)}
    if "buffer" in learners[0]:
        rows = [{name: t for name, t in each["buffer"].items() if name != "counts"} for each in learners]
        learner["buffer"] = join_all(rows, TEAMS) | {"counts": learners[0]["buffer"]["counts"]}
    if "memory" in learners[0]:
        learner["memory"] = join([each["memory"] for each in learners], TEAMS)
    frozen = zip(*(part["places"] for part in parts), strict=True)
    return {
        "fits": parts[0]["fits"],
        "rollout": join_all([part["rollout"] for part in parts], MATCHES),
        "learner": learner,
        "places": [None if hidden[0] is None else join(hidden, TEAMS) for hidden in frozen],
    }
