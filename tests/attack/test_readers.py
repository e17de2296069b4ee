"""Damaged files for every reader of a stranger's files: accepted or refused, no traceback, no hang."""

import pytest
from helpers.fuzz_readers import ACCEPTED, HANG, REFUSED, TRACEBACK, Readers

SEED = 1
CASES, CASES_OF_MATCHES, SLOW_CASES = 200, 50, 10_000  # a match is verified by playing it, which takes longer
# Listed and deleted even if they are damaged: nothing of theirs is refused.
LENIENT = {"run's configuration", "run.json", "metrics.jsonl", "owner", "pointer"}


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> Readers:
    print(f"seed {SEED}")
    return Readers(tmp_path_factory.mktemp("readers"), SEED)


NAMES = [
    *("configuration", "run's configuration", "run.json", "metrics.jsonl", "owner", "manifest", "pointer", "weights"),
    *("part", "snapshot", "replay", "competition log", "league"),
]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("name", NAMES)
def test_a_reader(readers, name, request) -> None:
    is_match = name in ("replay", "competition log")
    cases = SLOW_CASES if request.config.getoption("--slow") else CASES_OF_MATCHES if is_match else CASES
    ends = readers.count(name, cases)
    print(f"{name}: {dict(ends)}")
    assert ends[TRACEBACK] == ends[HANG] == 0, "\n".join(readers.problems[:3])
    assert ends[ACCEPTED] > 0
    assert (ends[REFUSED] > 0) == (name not in LENIENT)


def test_the_table_is_whole(readers) -> None:
    assert list(readers.readers) == NAMES
