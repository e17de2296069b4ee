"""Memory stays flat over many updates."""

from pathlib import Path

import pytest
from helpers import run_updates
from helpers.training import finish, forked_call


def test_memory_is_flat() -> None:
    """At this rate, resident memory grows by less than 2 % from 1,000 updates to 10,000."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc to read the memory from")
    with forked_call(run_updates.main, "300", "480") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    early, late = map(int, done.stdout.split())
    print(f"{early} kB, then {late} kB")
    assert 50 * (late - early) < 0.02 * early  # from 180 updates to 9,000
