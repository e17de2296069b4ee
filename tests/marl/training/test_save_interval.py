"""When a checkpoint is due."""

import signal
from types import SimpleNamespace

import pytest
from helpers.training import TINY, finish, forked, here, manifest, the_run

from marl.config.train_config import SAVE_EPISODES, SAVE_SECONDS
from marl.training.training_state import TrainingState

SOON, LATE = SAVE_SECONDS - 0.1, SAVE_SECONDS + 0.1


def make_state(save_interval: int | None) -> TrainingState:
    state = TrainingState.__new__(TrainingState)
    state.config = SimpleNamespace(save_interval=save_interval)
    state.progress = SimpleNamespace(episodes=0, seconds=0.0)
    state.marks, state.saved_at = {"save": 0}, 0.0
    return state


def due_at(state: TrainingState, times: list[tuple[int, float]]) -> list[bool]:
    """Whether a checkpoint is due at these episodes and seconds of training; those that are due are saved."""
    found = []
    for state.progress.episodes, state.progress.seconds in times:
        found.append(state.is_save_due())
        if found[-1]:
            state.saved_at = state.progress.seconds
    return found


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(999, 60), (1000, 61), (1999, 90), (2005, 91)], [False, True, False, True]),  # slow: by episodes alone
        ([(1000, SOON), (2000, LATE)], [False, True]),  # fast: not before the seconds have passed
        ([(1000, LATE), (2000, LATE + SOON), (3000, 2 * LATE)], [True, False, True]),  # counted from the last one
        (
            [(1000, SOON), (1500, LATE), (2000, LATE)],
            [False, False, True],
        ),  # at multiples of the episodes
    ],
)
def test_auto_waits_for_episodes_and_seconds(times, expected):
    assert SAVE_EPISODES == 1000
    assert due_at(make_state(None), times) == expected


def test_an_interval_that_is_given_is_kept_however_fast_the_run():
    assert due_at(make_state(4), [(2, 0.0), (4, 0.1), (9, 0.2), (11, 0.3)]) == [False, True, True, False]


def test_a_checkpoint_is_kept_from_each_milestone_on_however_many_episodes_a_cycle_has(tmp_path):
    """A cycle has 5 episodes, so no checkpoint but the last is at a multiple of 7."""
    words = [*TINY, "--matches", "50", "--max_episodes", "35", "--keep_last", "1", "--runs_dir", tmp_path]
    assert here(*words, "--milestones", "7", "--save_interval", "1000").returncode == 0
    run = the_run(tmp_path)
    milestones = (10, 15, 25, 30, 35)  # the first ones after 7, 14, 21 and 28, and 35
    assert {folder.name for folder in (run / "checkpoints").glob("episode_*")} == {f"episode_{at}" for at in milestones}
    done = here("train", "--resume", run, "--max_episodes", "50")
    assert (done.returncode, done.stderr) == (0, "")
    assert {folder.name for folder in (run / "checkpoints").glob("episode_*")} == {
        f"episode_{at}" for at in (*milestones, 45, 50)
    }


def test_a_stop_where_a_checkpoint_is_due_saves_once(tmp_path):
    words = [*TINY, "--matches", "50", "--max_episodes", "100", "--save_interval", "1", "--keep_last", "0"]
    with forked([*words, "--runs_dir", tmp_path], PLANTED="0:saves:0 0:term:5") as process:
        assert finish(process).returncode == 128 + signal.SIGTERM
    run = the_run(tmp_path)
    last = (run / "checkpoints" / "last").read_text().strip().removeprefix("episode_")
    assert manifest(run, int(last))["save"] == len(list((run / "checkpoints").glob("episode_*")))
