"""Triton kernels of an optimizer step of stacked networks (stacked_step.py): clipping, Adam, targets, copies in bf16.

All tensors of weights are [2, P]: two networks, each with a norm, a learning rate and a count of steps of its own.
"""

import triton
import triton.language as tl

from marl.compute.flat_adam_kernels import one_minus_exp
from marl.networks.row_kernels import copy_weights

TINY = tl.constexpr(1e-6)  # added to the norm, as torch does


@triton.jit
def load_of(network, of_first, of_second):
    """A number of the present network."""
    if network == 0:  # noqa: SIM108 - Triton loads both in a conditional expression
        found = tl.load(of_first)
    else:
        found = tl.load(of_second)
    return found


@triton.jit
def squares_kernel(
    gradients, squares, steps, other_steps, step_before, P: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """squares [2, PARTS]: sums over each program's numbers. step_before [2]: the next kernel writes the steps."""
    network = tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(tl.program_id(0) * BLOCK, P, PARTS * BLOCK):
        i = begin + tl.arange(0, BLOCK)
        gradient = tl.load(gradients + network * P + i, mask=i < P, other=0.0)
        total += gradient * gradient
    tl.store(squares + network * PARTS + tl.program_id(0), tl.sum(total, 0))
    if tl.program_id(0) == 0:
        tl.store(step_before + network, load_of(network, steps, other_steps))


@triton.jit(do_not_specialize=["tensors"])
def stacked_step_kernel(
    weights, gradients, exp_avg, exp_avg_sq, targets, squares, step_before, steps, other_steps, lr, other_lr, norms,
    scale, first, bias, tail, target_first, target_bias, target_tail,
    tensors, max_norm, beta1, beta2, rest1, rest2, log_beta1, log_beta2, eps, tau,
    W: tl.constexpr, H: tl.constexpr, K: tl.constexpr, P: tl.constexpr, COPIES: tl.constexpr,
    PARTS: tl.constexpr, TENSORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A step of each network whose norm is finite; then the targets move by tau, and all copies are made.

    norms [3]: of the gradients before clipping, and their sum. rest: 1 - beta. steps [tensors]: all equal.
    """
    network = tl.program_id(1)
    part = tl.arange(0, PARTS)
    of_first = tl.sqrt_rn(tl.sum(tl.load(squares + part), 0))
    of_second = tl.sqrt_rn(tl.sum(tl.load(squares + PARTS + part), 0))
    norm = tl.where(network == 0, of_first, of_second)
    is_taken = norm - norm == 0  # x - x is 0 unless x is infinite or NaN
    factor = tl.minimum(max_norm / (norm + TINY), 1.0)
    step = tl.load(step_before + network) + 1
    rate = load_of(network, lr, other_lr) / one_minus_exp(step * log_beta1)
    deviation_factor = 1 / tl.sqrt_rn(one_minus_exp(step * log_beta2))
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, exists = network * P + i, i < P
    gradient = tl.load(gradients + at, mask=exists, other=0.0) * factor
    mean = beta1 * tl.load(exp_avg + at, mask=exists, other=0.0) + rest1 * gradient
    square = beta2 * tl.load(exp_avg_sq + at, mask=exists, other=0.0) + rest2 * gradient * gradient
    weight = tl.load(weights + at, mask=exists, other=0.0)
    stepped = weight - rate * mean / (tl.sqrt_rn(square) * deviation_factor + eps)
    weight = tl.where(is_taken, stepped, weight)
    is_changed = i < tl.where(is_taken, P, 0)
    tl.store(exp_avg + at, mean, is_changed)
    tl.store(exp_avg_sq + at, square, is_changed)
    tl.store(weights + at, weight, is_changed)
    target = tl.load(targets + at, mask=exists, other=0.0)
    target += tau * (weight - target)
    tl.store(targets + at, target, exists)
    copy_weights(weight, i, network, scale, first, bias, tail, W, H, K, P, COPIES)
    copy_weights(target, i, network, scale, target_first, target_bias, target_tail, W, H, K, P, COPIES)
    if tl.program_id(0) == 0:
        tl.store(norms + network, norm)
        number = tl.arange(0, TENSORS)
        is_counted = number < tl.where(is_taken, tensors, 0)
        if network == 0:
            tl.store(norms + 2, of_first + of_second)
            tl.store(steps + number, step + tl.zeros((TENSORS,), tl.float32), is_counted)
        else:
            tl.store(other_steps + number, step + tl.zeros((TENSORS,), tl.float32), is_counted)
