"""Shared by all tests: the repository on the path, the order of the files, and the machine's reasons to skip."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Not left to an installation: tests/arena must never be taken for the package `arena`.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
# Programs that tests start find the same packages, and their helpers.
# Measured choices of threads and oneDNN: tests neither read nor write those of the user.
CACHE = tempfile.mkdtemp(prefix="snakes-cache-")
os.environ["XDG_CACHE_HOME"] = CACHE
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
PLACES = (str(ROOT), str(ROOT / "tests"))
os.environ["PYTHONPATH"] = os.pathsep.join((*PLACES, *filter(None, [os.environ.get("PYTHONPATH")])))

# Files that take longest, the longest first: ./test.sh hands out whole files, and the last ones shall be short.
LONGEST = (
    "marl/training/test_resume.py",
    "marl/learners/test_learning.py",
    "marl/training/test_train_ranks.py",
    "test_slurm.py",
    "marl/training/test_train.py",
    "marl/training/test_train_resume.py",
    "marl/training/test_league_runs.py",
    "marl/ranks/test_faults.py",
    "marl/doctor/test_doctor.py",
    "marl/ranks/test_two_hosts.py",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_cuda: runs only where torch sees a CUDA device")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two test processes share two cores, and small products gain nothing from more. Tells the file's seed."""
    import torch

    print(f"seed {request.module.SEED}")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
