"""Clipping and Adam's step over flat tensors of float32 on a GPU, by Triton. Imported only where Triton is used.

torch starts about fifteen kernels for them, most of them shorter than the gap before the next one; these are two. The
plain version is torch's `clip_grad_norm_` and Adam; results are equal within rounding. Nothing waits for the device.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

BLOCK = 1024  # numbers of a program at a time
PARTS = 256  # programs that sum up squares; a power of two
TINY = tl.constexpr(1e-6)  # added to the norm, as torch does
SMALL = tl.constexpr(-0.1)


@triton.jit
def one_minus_exp(x):
    """1 - exp(x) for x <= 0; near 0 by its series, where the difference would lose digits."""
    series = -x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))))
    return tl.where(x > SMALL, series, 1 - tl.exp(x))


@triton.jit(do_not_specialize=["size"])
def sum_squares_kernel(gradients, squares, steps, step_before, size, BLOCK: tl.constexpr):
    """squares [programs]: sums over each program's numbers. step_before: a copy, since the next kernel writes steps."""
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
        at = begin + tl.arange(0, BLOCK)
        gradient = tl.load(gradients + at, mask=at < size, other=0.0)
        total += gradient * gradient
    tl.store(squares + tl.program_id(0), tl.sum(total, 0))
    if tl.program_id(0) == 0:
        tl.store(step_before, tl.load(steps))


@triton.jit(do_not_specialize=["size", "tensors"])
def step_kernel(
    weights, gradients, exp_avg, exp_avg_sq, squares, steps, step_before, lr, skip, norms, size, tensors, max_norm,
    beta1, beta2, rest1, rest2, log_beta1, log_beta2, eps,
    PARTS: tl.constexpr, TENSORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of all weights, if `skip` is 0 and the norm finite; norms [1]: of the gradients before clipping.

    lr, skip: tensors of one number. rest: 1 - beta. steps [tensors]: the same number for each tensor of weights.
    """
    norm = tl.sqrt_rn(tl.sum(tl.load(squares + tl.arange(0, PARTS)), 0))
    is_taken = (norm - norm == 0) & (tl.load(skip) == 0)  # x - x is 0 unless x is infinite or NaN
    factor = tl.minimum(max_norm / (norm + TINY), 1.0)
    step = tl.load(step_before) + 1
    rate = tl.load(lr) / one_minus_exp(step * log_beta1)
    deviation_factor = 1 / tl.sqrt_rn(one_minus_exp(step * log_beta2))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = at < size
    gradient = tl.load(gradients + at, mask=exists, other=0.0) * factor
    mean = beta1 * tl.load(exp_avg + at, mask=exists, other=0.0) + rest1 * gradient
    square = beta2 * tl.load(exp_avg_sq + at, mask=exists, other=0.0) + rest2 * gradient * gradient
    weight = tl.load(weights + at, mask=exists, other=0.0)
    weight -= rate * mean / (tl.sqrt_rn(square) * deviation_factor + eps)
    is_changed = at < tl.where(is_taken, size, 0)
    tl.store(exp_avg + at, mean, is_changed)
    tl.store(exp_avg_sq + at, square, is_changed)
    tl.store(weights + at, weight, is_changed)
    if tl.program_id(0) == 0:
        tl.store(norms, norm)
        number = tl.arange(0, TENSORS)
        tl.store(steps + number, step + tl.zeros((TENSORS,), tl.float32), number < tl.where(is_taken, tensors, 0))


class ClipAndStep:
    """The two kernels over one set of tensors: weights, gradients and their two averages [N], steps [tensors]."""

    def __init__(
        self, weights: torch.Tensor, gradients: torch.Tensor, averages: Sequence[torch.Tensor], steps: torch.Tensor
    ) -> None:
        self._tensors, self._steps = (weights, gradients, *averages), steps
        self._squares = torch.zeros(PARTS, device=weights.device)
        self._step_before = torch.zeros(1, device=weights.device)
        self.norm = torch.zeros((), device=weights.device)  # of the gradients of the last step, before clipping

    def __call__(
        self, max_norm: float, skip: torch.Tensor, lr: torch.Tensor, betas: tuple[float, float], eps: float
    ) -> None:
        """One step, unless `skip` is 1 or the norm is not finite."""
        size, count = self._tensors[0].numel(), len(self._steps)
        gradients, states = self._tensors[1], (self._squares, self._steps, self._step_before)
        sum_squares_kernel[(PARTS,)](gradients, *states, size, BLOCK=BLOCK)
        numbers = (*betas, *(1 - beta for beta in betas), *map(math.log, betas), eps)
        step_kernel[(triton.cdiv(size, BLOCK),)](
            *self._tensors, *states, lr, skip, self.norm, size, count, max_norm, *numbers,
            PARTS=PARTS, TENSORS=triton.next_power_of_2(count), BLOCK=BLOCK,
        )  # fmt: skip
