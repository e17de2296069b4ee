"""Snapshots in memory: when they are taken, what is in them, and when a checkpoint on the disk is newer."""

from pathlib import Path

import pytest
import torch
from helpers.resumed import assert_equal
from helpers.training_states import small_state

from marl.ranks import snapshot_memory
from marl.ranks.snapshot_memory import SnapshotMemory
from marl.storage import checkpoint_writer
from marl.training import memory_snapshots
from marl.training.checkpointing import build_state, manifest_fields, rank_part, shared_part
from marl.training.memory_snapshots import INTERVAL, Snapshots


@pytest.fixture
def memory(monkeypatch) -> SnapshotMemory:
    memory = SnapshotMemory(1)
    monkeypatch.setattr(snapshot_memory, "_inherited", [memory])
    return memory


@pytest.fixture(scope="module")
def state():
    state = small_state()
    state.rollout.start(state.learner.act)
    for _ in range(20):
        state.rollout.play_turn(state.learner.act)
    state.count_turns(20)
    return state


def test_snapshots_follow_the_time_of_training_and_wait_for_checkpoints(memory, state) -> None:
    snapshots, begin = Snapshots(state), state.progress.seconds

    def after(seconds: float, unfinished: int = 0, saved_since: int = 0) -> int:
        """The number of the newest snapshot after so many seconds of training."""
        state.progress.seconds = begin + seconds
        snapshots.decide(snapshots.vote(unfinished), saves=3)
        snapshots.take_if_due(saves=3 + saved_since)
        return memory.number

    assert after(0.5 * INTERVAL) == 0
    assert after(1.0 * INTERVAL) == 1
    assert after(1.9 * INTERVAL) == 1
    assert after(2.5 * INTERVAL, unfinished=1) == 1  # a checkpoint is being written
    assert after(2.5 * INTERVAL, saved_since=1) == 1  # one was begun after the ranks had agreed
    assert after(2.5 * INTERVAL) == 2
    snapshots._cost = 2 * memory_snapshots.SHARE * INTERVAL  # so large that it may be taken every two intervals
    assert after(4.0 * INTERVAL) == 2
    assert after(4.6 * INTERVAL) == 3
    state.progress.seconds = begin


def test_without_a_launcher_that_wants_them_there_are_none(state) -> None:
    snapshots = Snapshots(state)
    snapshots.decide(snapshots.vote(0), saves=0)
    snapshots.take_if_due(saves=0)  # nowhere to write to


def test_a_state_is_built_from_a_snapshot(memory, state, tmp_path: Path) -> None:
    memory.write(0, memory_snapshots._contents(state), 0)
    found = memory_snapshots.newest(tmp_path, 0, 1000, state.group)
    restored = build_state(state.config, state.group, found)
    assert restored.is_exact
    assert restored.progress == state.progress
    assert_equal(rank_part(restored), rank_part(state))
    assert_equal(shared_part(restored, False), shared_part(state, False))
    assert_equal(dict(restored.learner.named_weights()), dict(state.learner.named_weights()))


def test_a_newer_checkpoint_wins_unless_it_is_the_last(memory, state, tmp_path: Path) -> None:
    memory.write(0, memory_snapshots._contents(state), 0)
    episode = state.progress.episodes
    for saved in (episode, episode + 1):
        checkpoint_writer.save(tmp_path, saved, {"w": torch.zeros(1)}, {"state": {}}, manifest_fields(state))
        newer = saved > episode
        assert (memory_snapshots.newest(tmp_path, 0, 1000, state.group) is None) == newer
    assert memory_snapshots.newest(tmp_path, 0, episode + 1, state.group) is not None


def test_a_later_checkpoint_from_before_the_launch_does_not_count(memory, state, tmp_path: Path) -> None:
    """The launch has gone back to an earlier checkpoint."""
    memory.write(0, memory_snapshots._contents(state), 0)
    for saved in (1, 50):
        checkpoint_writer.save(tmp_path, saved, {"w": torch.zeros(1)}, {"state": {}}, manifest_fields(state))
    assert memory_snapshots.newest(tmp_path, 2, 1000, state.group) is not None
    checkpoint_writer.save(tmp_path, 40, {"w": torch.zeros(1)}, {"state": {}}, manifest_fields(state))
    assert memory_snapshots.newest(tmp_path, 2, 1000, state.group) is None
