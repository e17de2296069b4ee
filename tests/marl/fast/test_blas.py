"""Products that compiled code asks for are those of torch, to the bit."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arena.jit import njit
from marl.fast import blas
from marl.fast.blas import PLAIN, TRANSPOSED, sgemm

SEED = 5
pytestmark = pytest.mark.usefixtures("one_thread")


@njit
def multiply(function, a_order, b_order, inner, a, b, beta, out):
    rows, columns = out.shape
    sgemm(function, a_order, b_order, rows, columns, inner, a, a.shape[1], b, b.shape[1], np.float32(beta), out)


@pytest.mark.parametrize("name", blas.NAMES)
def test_products_are_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert blas.is_usable()
    if not blas._address(name):
        pytest.skip(f"torch shows no {name}")
    assert blas._multiplies(name)
    function = blas._address(name), blas.NAMES[name]
    torch.manual_seed(SEED)
    for rows, inner, columns in ((1, 1, 1), (3, 7, 5), (72, 112, 128), (128, 192, 4)):
        a, b, added = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)
        for a_order, b_order in ((PLAIN, PLAIN), (PLAIN, TRANSPOSED), (TRANSPOSED, PLAIN)):
            left = a if a_order == PLAIN else a.t().contiguous()
            right = b if b_order == PLAIN else b.t().contiguous()
            seen = (left if a_order == PLAIN else left.t(), right if b_order == PLAIN else right.t())
            for beta in (0.0, 1.0):
                out = added.clone() if beta else torch.full_like(added, float("nan"))
                arrays = (left.numpy(), right.numpy(), beta, out.numpy())
                multiply(function, a_order, b_order, inner, *arrays)
                expected = torch.addmm(added, *seen) if beta else torch.mm(*seen)
                assert torch.equal(out, expected), (
                    f"{rows, inner, columns}, {a_order, b_order}, beta {beta}, seed {SEED}"
                )


def test_more_threads_and_onednn_on_arm_stay_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas.onednn, "needs_measurement", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    assert not blas.is_usable()
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert not blas.is_usable()


def test_a_function_that_does_not_multiply_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    monkeypatch.setattr(blas, "_torch_library", lambda: SimpleNamespace(cblas_sgemm=nothing))
    monkeypatch.setattr(blas, "sgemm_name", blas.sgemm_name.__wrapped__)  # not the one that is known already
    assert not blas._multiplies("cblas_sgemm")
    assert blas.sgemm_name() is None
    assert not blas.is_usable()
