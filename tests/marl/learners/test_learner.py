"""Scaling of the learning rate with the number of ranks, and its warm-up."""

from marl.learners.learner import lr_factor, warmup


def test_learning_rate_scaling_and_warm_up() -> None:
    assert [lr_factor(scaling, 4) for scaling in ("none", "linear", "sqrt")] == [1.0, 4.0, 2.0]
    assert [warmup(update, 4) for update in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmup(0, 0) == 1.0
