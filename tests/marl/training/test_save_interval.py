"""When a checkpoint is due."""

from types import SimpleNamespace

import pytest

from marl.config.train_config import SAVE_EPISODES, SAVE_SECONDS
from marl.training.training_state import TrainingState

SOON, LATE = SAVE_SECONDS - 0.1, SAVE_SECONDS + 0.1


def make_state(save_interval: int | None, milestones: int = 0) -> TrainingState:
    state = TrainingState.__new__(TrainingState)
    state.config = SimpleNamespace(save_interval=save_interval, milestones=milestones)
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


def test_a_milestone_is_never_left_out():
    times = [(1000, 0.1), (2000, 0.2), (3000, 0.3), (4000, 0.4)]
    assert due_at(make_state(None, milestones=2000), times) == [False, True, False, True]
