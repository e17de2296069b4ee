"""Whether Triton's kernels can be tested here: on a GPU, or in Triton's interpreter."""

import os

import numpy as np
import pytest


def need_triton() -> None:
    """Skips the test where they cannot."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if os.environ.get("TRITON_INTERPRET") == "1" and np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        pytest.skip("Triton's interpreter needs numpy < 2.5, as the lock files have it")
