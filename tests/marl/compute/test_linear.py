"""A dense layer's product by hand against torch's own, in value and in all gradients."""

from functools import partial

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


def function(*given, relu: bool = False) -> torch.Tensor:
    return _Linear.apply(*given, relu)


def plain(*given, relu: bool = False) -> torch.Tensor:
    return F.relu(F.linear(*given)) if relu else F.linear(*given)


with_and_without_relu = pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])


@with_and_without_relu
@pytest.mark.parametrize("product", [linear, function], ids=["linear", "function"])
@pytest.mark.parametrize("ahead", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_value_and_gradients_are_those_of_torch(product, rows, inputs, outputs, ahead, relu) -> None:
    shape = (*ahead, rows)
    given = torch.randn(*shape, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    outer = torch.randn(*shape, outputs)
    product, expected = partial(product, relu=relu), partial(plain, relu=relu)
    for mine, its in zip(found_by(product, *given, outer), found_by(expected, *given, outer), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_small_differences() -> None:
    given = [torch.randn(4, 3), torch.randn(2, 3), torch.randn(2)]
    assert torch.autograd.gradcheck(function, [tensor.double().requires_grad_() for tensor in given])


def test_rows_may_need_no_gradient() -> None:
    """As what a first layer reads."""
    rows, weight = torch.randn(6, 5), torch.randn(4, 5, requires_grad=True)
    bias = torch.randn(4, requires_grad=True)
    out = function(rows, weight, bias)
    out.sum().backward()
    assert rows.grad is None
    torch.testing.assert_close(weight.grad, rows.sum(0).expand(4, 5))
    torch.testing.assert_close(bias.grad, torch.full((4,), 6.0))


def test_gradients_add_up_over_calls() -> None:
    rows, weight, bias = torch.randn(6, 5), torch.randn(4, 5, requires_grad=True), torch.zeros(4, requires_grad=True)
    for _ in range(2):
        function(rows, weight, bias).sum().backward()
    torch.testing.assert_close(weight.grad, 2 * rows.sum(0).expand(4, 5))
    assert bias.grad.tolist() == [12, 12, 12, 12]


@pytest.mark.needs_cuda
@with_and_without_relu
@pytest.mark.parametrize("outputs", [4, 5, 8, 129])
def test_on_a_gpu_any_number_of_outputs_is_that_of_torch(outputs, relu) -> None:
    given = [tensor.cuda() for tensor in (torch.randn(50, 24), torch.randn(outputs, 24), torch.randn(outputs))]
    outer = torch.randn(50, outputs).cuda()
    for bf16 in (False, True):
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            mine = found_by(partial(linear, relu=relu), *given, outer.bfloat16() if bf16 else outer)
        for ours, its in zip(mine, found_by(partial(plain, relu=relu), *given, outer), strict=True):
            off = (ours.float() - its).norm() / its.norm()
            assert off < (2e-2 if bf16 else 2e-3), f"bf16 {bf16}, seed {SEED}"
