"""Memory stays flat over many updates."""

from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from helpers import run_updates
from helpers.training import finish, forked_call


def test_memory_is_flat() -> None:
    """At this rate, resident memory grows by less than 2 % from 1,000 updates to 10,000."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc to read the memory from")
    with forked_call(run_updates.main, "100", "200", "300", "400", "500") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    found = [int(word) for word in done.stdout.split()]
    print(f"kB: {found}")
    # Now and then the allocator gives back memory of the start, more than a leak would take.
    grown = [after - before for before, after in pairwise(found) if after >= before]
    assert grown
    assert 90 * mean(grown) < 0.02 * found[0]  # from 100 updates to 9,000
