"""Sums over rows are those of torch, to the bit on ARM; the passes themselves are tested by test_dense_pass.py."""

import platform

import numpy as np
import pytest
import torch

from marl.fast.dense_kernels import LEVELS, sum_rows

SEED = 9
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("columns", [4, 5, 16, 21, 128])
def test_sums_over_rows_are_torchs(columns: int) -> None:
    torch.manual_seed(SEED)
    levels, sums = np.full((LEVELS, 128), np.nan, np.float32), np.zeros(columns, np.float32)
    for rows in (1, 3, 16, 17, 72, 192, 255, 256, 257, 1032, 4100):
        matrix = torch.randn(rows, columns)
        sum_rows(matrix.numpy(), levels, sums)
        found, expected = torch.from_numpy(sums), torch.sum(matrix, 0)
        if platform.machine() in ("aarch64", "arm64"):
            assert torch.equal(found, expected), f"{rows} rows, seed {SEED}"
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
