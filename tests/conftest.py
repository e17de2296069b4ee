"""Shared by all tests: the repository on the path, the order of the files, and the machine's reasons to skip."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
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
# Files that mostly wait (W) stand between those that mostly compute.
LONGEST = (
    "marl/training/test_train_ranks.py",
    "marl/training/test_resume.py",
    "test_slurm.py",  # W
    "marl/training/test_evaluation.py",  # W
    "marl/training/test_resume_plan.py",
    "marl/ranks/test_faults.py",
    "marl/ranks/test_process_group.py",  # W
    "marl/training/test_train.py",
    "marl/learners/test_learning.py",
    "marl/ranks/test_launch.py",  # W
    "marl/ranks/test_two_hosts.py",  # W
    "marl/doctor/test_doctor.py",
    "marl/learners/test_flat_memory.py",
    "marl/ranks/test_elastic.py",  # W
    "marl/training/test_league_runs.py",
    "marl/training/test_slow_disk.py",  # W
    "marl/learners/test_ppo_ranks.py",
    "arena/render/test_window.py",  # W
    "marl/training/test_train_resume.py",
    "marl/commands/test_play.py",  # W
    "marl/training/test_nonfinite.py",
    "marl/export/test_play_page.py",
    "arena/render/test_viewer.py",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_cuda: runs only where torch sees a CUDA device")


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a run of all tests, every worker loads another part of the test files first.

    pytest rewrites the assertions of a file, and keeps the result beside it as bytecode. Workers that load the files in
    the same order would all do so for all files, which takes 7 s of a core; now each does it for its part.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    tests = Path(__file__).parent
    if worker is None or sys.dont_write_bytecode or [Path(arg).resolve() for arg in session.config.args] != [tests]:
        return
    files = sorted(tests.rglob("test_*.py"))
    first = len(files) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[first:] + files[:first]:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        with suppress(Exception, pytest.skip.Exception):  # collection tells it
            import_module(file.stem)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


def pytest_collection_finish() -> None:
    if sys.platform != "win32":
        from helpers import compile_in_turn

        compile_in_turn.install()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Test processes share the cores, and small products gain nothing from more. Tells the file's seed."""
    import torch

    print(f"seed {request.module.SEED}")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
