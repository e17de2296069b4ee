"""The texts of a run: its times add up."""

from marl.training.report import _times


def test_the_times_of_a_new_run() -> None:
    assert _times(9, 7, 0) == "9 s (7 s of training)"


def test_the_times_of_a_resumed_run_add_up() -> None:
    assert _times(7, 5, 22) == "7 s (5 s of training) since it was resumed; 27 s of training in all"
