"""Random command lines and damaged files: exit code 0 or 2, one line, no traceback. tests/soak.py --fuzz runs more."""

from collections import Counter

import pytest
from helpers.fuzzing import Fuzz

SEED, CASES = 1, 60


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory) -> Fuzz:
    print(f"seed {SEED}")
    return Fuzz(tmp_path_factory.mktemp("fuzz"), SEED)


def test_whatever_comes_ends_in_good_order(fuzz) -> None:
    ends = Counter(map(fuzz.run, range(CASES)))
    for kind in fuzz.kinds:  # damage was found in each kind, and not everything was refused
        assert ends[f"{kind}: 2"] > 0, ends
    assert sum(number for end, number in ends.items() if end.endswith(": 0")) > CASES // 10, ends
