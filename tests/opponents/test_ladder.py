"""The ladder's order: each rung beats the one below."""

from itertools import pairwise

import pytest

from opponents.match import play
from opponents.scripted import SCRIPTED

SEED = 17
MATCHES = 200
RUNGS = list(SCRIPTED)


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(RUNGS)))
def test_each_rung_takes_more_than_half_of_the_points_from_the_one_below(lower, higher) -> None:
    results = play(higher, lower, MATCHES, seed=SEED)
    assert results.points >= 0.52, f"{higher} took {results.points:.3f} from {lower}, {MATCHES} matches, seed {SEED}"
