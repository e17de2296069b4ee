"""A dense layer's product by hand against torch's own, in value and in all gradients."""

import pytest
import torch
from torch.nn import functional as F

from marl.compute.linear import _Linear, linear

SEED = 12
SHAPES = [(7, 5, 4), (24, 16, 8), (1, 3, 1)]  # rows, inputs, outputs


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def found_by(product, rows, weight, bias, outer) -> list[torch.Tensor]:
    """The product, and the gradients of all that went into it, if `outer` is the gradient of what came out."""
    given = [tensor.clone().requires_grad_() for tensor in (rows, weight, bias)]
    out = product(*given)
    return [out.detach(), *torch.autograd.grad(out, given, outer)]


@pytest.mark.parametrize("product", [linear, _Linear.apply], ids=["linear", "function"])
@pytest.mark.parametrize("ahead", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_value_and_gradients_are_those_of_torch(product, rows, inputs, outputs, ahead) -> None:
    shape = (*ahead, rows)
    given = torch.randn(*shape, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    outer = torch.randn(*shape, outputs)
    for mine, its in zip(found_by(product, *given, outer), found_by(F.linear, *given, outer), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_small_differences() -> None:
    given = [torch.randn(4, 3), torch.randn(2, 3), torch.randn(2)]
    assert torch.autograd.gradcheck(_Linear.apply, [tensor.double().requires_grad_() for tensor in given])


def test_rows_may_need_no_gradient() -> None:
    """As what a first layer reads."""
    rows, weight = torch.randn(6, 5), torch.randn(4, 5, requires_grad=True)
    bias = torch.randn(4, requires_grad=True)
    out = _Linear.apply(rows, weight, bias)
    out.sum().backward()
    assert rows.grad is None
    torch.testing.assert_close(weight.grad, rows.sum(0).expand(4, 5))
    torch.testing.assert_close(bias.grad, torch.full((4,), 6.0))


def test_gradients_add_up_over_calls() -> None:
    rows, weight, bias = torch.randn(6, 5), torch.randn(4, 5, requires_grad=True), torch.zeros(4, requires_grad=True)
    for _ in range(2):
        _Linear.apply(rows, weight, bias).sum().backward()
    torch.testing.assert_close(weight.grad, 2 * rows.sum(0).expand(4, 5))
    assert bias.grad.tolist() == [12, 12, 12, 12]


@pytest.mark.needs_cuda
@pytest.mark.parametrize("outputs", [4, 5, 8, 129])
def test_on_a_gpu_any_number_of_outputs_is_that_of_torch(outputs) -> None:
    given = [tensor.cuda() for tensor in (torch.randn(50, 24), torch.randn(outputs, 24), torch.randn(outputs))]
    outer = torch.randn(50, outputs).cuda()
    for mine, its in zip(found_by(linear, *given, outer), found_by(F.linear, *given, outer), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-2, atol=1e-2)
