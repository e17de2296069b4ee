"""Memory stays flat over many updates."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import HELPERS
from helpers.command import ROOT


def test_memory_is_flat() -> None:
    """At this rate, resident memory grows by less than 2 % from 1,000 updates to 10,000."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc to read the memory from")
    done = subprocess.run(
        [sys.executable, str(HELPERS / "run_updates.py"), "500", "1000"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(HELPERS.parent)))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    early, late = map(int, done.stdout.split())
    print(f"{early} kB, then {late} kB")
    assert 18 * (late - early) < 0.02 * early  # from 500 updates to 9,000
