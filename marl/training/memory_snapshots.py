"""Snapshots of a run in memory, for `--fault_tolerant`: what training takes, and what the next start reads.

A snapshot holds what a checkpoint holds, and the weights of the past selves. It is taken between two cycles, but not
while the best checkpoint or a milestone is being written: a run that goes on from the snapshot would lack it for good.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.ranks.process_group import Ranks, Solo, on_main
from marl.ranks.snapshot_memory import Ring, SnapshotMemory, inherited
from marl.storage.checkpoint import FOLDER, Checkpoint
from marl.storage.checkpoint_finder import episode_of, list_complete
from marl.training.checkpointing import POOL, manifest_fields, rank_part, shared_part
from marl.training.training_state import TrainingState

INTERVAL = 0.5  # seconds of training between two snapshots
SHARE = 0.03  # of the time that snapshots may take: large ones are taken less often


class Snapshots:
    """Takes the snapshots of a run; without --fault_tolerant there are none. All ranks decide alike."""

    def __init__(self, state: TrainingState) -> None:
        self._state, self._memory = state, inherited()
        self._taken_at = state.progress.seconds
        self._cost = 0.0  # seconds of the last one, on this rank
        self._interval = INTERVAL
        if self._memory is not None and state.group.is_main:
            self._memory.begin(state.progress.updates)
        self._saves = -1  # needed checkpoints begun when the ranks agreed that none was being written

    def vote(self, unfinished_saves: int) -> tuple[float, float]:
        """What the ranks sum to decide together."""
        return float(unfinished_saves), self._cost

    def decide(self, votes: Sequence[float], saves: int) -> None:
        """votes: sums over all ranks. saves: needed checkpoints begun up to now."""
        unfinished, cost = votes
        self._interval = max(INTERVAL, cost / self._state.group.world / SHARE)
        self._saves = -1 if unfinished else saves

    @property
    def metrics(self) -> dict[str, float]:
        """For a log line."""
        return {} if self._memory is None else {"time/lost_ranks": self._memory.losses}

    def take_if_due(self, saves: int) -> None:
        """Between two cycles. saves: needed checkpoints begun up to now; one after the decision is still written."""
        memory, state = self._memory, self._state
        if memory is None:
            return
        if state.group.is_main:
            memory.count_cycle(state.progress.updates)
        if saves != self._saves or state.progress.seconds - self._taken_at < self._interval:
            return
        self._taken_at = state.progress.seconds
        begin = time.perf_counter()
        state.group.doing = "a snapshot in memory"
        memory.write(state.group.rank, _contents(state), state.progress.updates)
        self._cost = time.perf_counter() - begin


def _contents(state: TrainingState) -> dict[str, Any]:
    """What this rank keeps; rank 0 has what is the same on all ranks, too."""
    part, buffer = rank_part(state, copied=False), state.buffer
    if part is not None and "buffer" in part["learner"]:
        turns = int(buffer.counts[0])
        part["learner"]["buffer"] |= {name: Ring(ring, turns) for name, ring in buffer.rings().items()}
    mine = {"rank": part}
    if not state.group.is_main:
        return mine
    shared = shared_part(state, closed=False) | {POOL: dict(state.past_selves.pool)}
    about = manifest_fields(state) | {"episode": state.progress.episodes}
    return mine | {"about": about, "state": shared, "weights": dict(state.learner.named_weights())}


@dataclass(frozen=True)
class MemoryCheckpoint(Checkpoint):
    """The newest snapshot, read like a checkpoint."""

    memory: SnapshotMemory
    shared: dict[str, Any]

    @property
    def parts(self) -> list[str]:
        return ["state", *(f"rank{rank}" for rank in range(self.manifest["world_size"]))]

    def part(self, name: str) -> dict[str, Any]:
        if name == "state":
            return self.shared
        return self.memory.read(int(name.removeprefix("rank")))["rank"] or {}


def newest(run: Path, saves: int, max_episodes: int, group: Solo | Ranks) -> MemoryCheckpoint | None:
    """The newest snapshot of the run of this launch; None if a checkpoint of the launch is newer. A collective.

    A slow disk may be writing checkpoints all the time, without a moment for a snapshot. saves: how often the run had
    been saved before the launch, which may have gone back to an earlier checkpoint than the newest.
    """
    memory = inherited()
    assert memory is not None, "without --fault_tolerant there are no snapshots"
    found = memory.read(0)

    def is_outdated() -> bool:
        saved = [episode_of(path) for path in list_complete(run, after=saves)]
        # Not the last checkpoint: it holds nothing of what is left to do at the end.
        return any(found["about"]["episode"] < episode < max_episodes for episode in saved)

    if on_main(group, is_outdated):
        return None
    return MemoryCheckpoint(run / FOLDER / "memory", found["about"], found["weights"], memory, found["state"])
