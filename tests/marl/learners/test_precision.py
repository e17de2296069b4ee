"""Casts, scaled losses, and gradients that never reach the next update."""

import pytest
import torch
from torch import nn

from marl.learners.adam import Adam
from marl.learners.precision import Precision

SEED = 29
CPU = torch.device("cpu")
# Torch tells at length that this CPU has no bf16 products of its own.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")


def a_layer() -> nn.Linear:
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    return nn.Linear(6, 4)


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_products_are_in_the_precision_and_weights_in_fp32(name, dtype) -> None:
    layer, precision = a_layer(), Precision(name, CPU)
    with precision.autocast():
        assert layer(torch.ones(2, 6)).dtype == dtype
    assert layer.weight.dtype == torch.float32


@pytest.mark.parametrize(("name", "near"), [("fp32", 0.0), ("bf16", 0.02), ("fp16", 0.005)])
def test_gradients_are_those_of_the_loss_and_of_no_earlier_one(name, near) -> None:
    layer, precision = a_layer(), Precision(name, CPU)
    optimizer = Adam(layer, 0.01)
    for number in range(3):
        x = torch.randn(10, 6)
        with precision.autocast():
            loss = layer(x).float().square().mean()
        precision.backward(loss)
        precision.take_gradients(optimizer)
        expected = torch.autograd.grad(layer(x).square().mean(), list(layer.parameters()))
        expected = torch.cat([each.flatten() for each in expected])
        torch.testing.assert_close(optimizer.gradients, expected, rtol=near, atol=near * expected.abs().max().item())
        optimizer.step(0.0)
        assert optimizer.steps == number + 1


def test_an_overflow_in_fp16_is_no_step_and_the_next_loss_is_scaled_less() -> None:
    layer, precision = a_layer(), Precision("fp16", CPU)
    optimizer, other = Adam(layer, 0.01), Adam(a_layer(), 0.01)
    before = optimizer.weights.clone()
    scale = precision._scaler.get_scale()
    precision.backward(1e5 * layer(torch.ones(3, 6)).sum() * float("inf"))
    precision.take_gradients(optimizer, other)
    assert not optimizer.step(1.0).isfinite()
    assert torch.equal(optimizer.weights, before)
    assert other.step(1.0) == 0, "networks without a gradient keep their own"
    assert precision._scaler.get_scale() < scale


def test_a_state_holds_the_scale_and_one_of_another_precision_leaves_it() -> None:
    layer, narrow, full = a_layer(), Precision("fp16", CPU), Precision("fp32", CPU)
    optimizer = Adam(layer, 0.01)
    narrow.backward(layer(torch.ones(3, 6)).sum())
    narrow._scaler.update(1024.0)
    state = narrow.state_dict(optimizer)
    again = Precision("fp16", CPU)
    again.load_state_dict(optimizer, state)
    assert again._scaler.get_scale() == 1024
    again.load_state_dict(optimizer, full.state_dict(optimizer))
    assert again._scaler.get_scale() == 1024
    full.load_state_dict(optimizer, state)
