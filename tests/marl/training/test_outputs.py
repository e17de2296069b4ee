"""What a run's outputs ask of the caller."""

from pathlib import Path

import numpy as np
import pytest

from marl.training.outputs import RunOutputs
from marl.training.progress import Progress


@pytest.mark.parametrize(
    ("answer", "stops"),
    [(False, True), (np.bool_(False), True), (True, False), (np.bool_(True), False), (None, False), (0, False)],
)
def test_a_callback_that_returns_false_stops_the_run(answer, stops) -> None:
    outputs = RunOutputs(Path(), callback=lambda values: answer)
    assert outputs.asks_to_stop("log", Progress(), {"reward/total": 1.0}) is stops
