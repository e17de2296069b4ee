"""Shared by all tests: the repository on the path, and the machine's reasons to skip."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Not left to an installation: tests/arena must never be taken for the package `arena`.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_cuda: runs only where torch sees a CUDA device")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")
