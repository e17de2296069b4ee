"""Triton kernels of the layers behind the first one (tail_tiles.py): a second hidden layer, and the outputs.

M = rows, H = width of the first hidden layer, N = width of the second one, OUT = outputs. Matrices are read and written
in bf16 and products are summed in fp32, as torch does; outputs and their gradients are fp32. (Triton's interpreter
cannot multiply in bf16: tests give it fp32.)

Several networks of one shape may be computed at once, the last dimension of the grid. Their first hidden layers stand
side by side, [M, NETWORKS * H]; second ones and outputs follow each other, [NETWORKS, M, ..]. Copies of parameters lie
COPIES numbers apart.
"""

import triton
import triton.language as tl

OUTPUTS = tl.constexpr(16)  # outputs, padded to what the matrix units take


@triton.jit(do_not_specialize=["count"])
def tail_forward_kernel(
    first, weight, bias, out_weight, out_bias, second, outputs, count,
    H: tl.constexpr, N: tl.constexpr, OUT: tl.constexpr, KEEP: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
    NETWORKS: tl.constexpr = 1, COPIES: tl.constexpr = 0,
):  # fmt: skip
    """second [M, N] = ReLU(first [M, H] @ weight [N, H].T + bias), kept if KEEP; outputs [M, OUT] = its last layer.

    TILE_N: N, rounded up to a power of two.
    """
    if NETWORKS > 1:
        network = tl.program_id(1)
        first += network * H
        weight += network * COPIES
        out_weight += network * COPIES
        bias += network * COPIES
        out_bias += network * COPIES
        second += network.to(tl.int64) * count * N
        outputs += network.to(tl.int64) * count * OUT
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    n = tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    o = tl.arange(0, OUTPUTS)
    exists, wide = (m < count)[:, None], (n < N)[None, :]
    row = m.to(tl.int64)[:, None]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for at in range(0, H, TILE_K):
        deep = k + at < H
        x = tl.load(first + row * (NETWORKS * H) + (k + at)[None, :], mask=exists & deep[None, :], other=0.0)
        w = tl.load(weight + n[None, :] * H + (k + at)[:, None], mask=deep[:, None] & wide, other=0.0)
        total = tl.dot(x, w, total)
    total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    hidden = tl.where(total > 0, total, 0.0).to(second.dtype.element_ty)
    if KEEP:
        tl.store(second + row * N + n[None, :], hidden, exists & wide)
    is_output = (o < OUT)[None, :]
    w = tl.load(out_weight + o[None, :] * N + n[:, None], mask=(n < N)[:, None] & is_output, other=0.0)
    found = tl.dot(hidden, w) + tl.load(out_bias + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    tl.store(outputs + row * OUT + o[None, :], found, exists & is_output)


@triton.jit(do_not_specialize=["count"])
def by_second_kernel(
    second, by_outputs, out_weight, by_second, partial, count,
    N: tl.constexpr, OUT: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
    NETWORKS: tl.constexpr = 1, COPIES: tl.constexpr = 0,
):  # fmt: skip
    """by_second [M, N]: the gradient before ReLU of the second hidden layer, given by_outputs [M, OUT].

    partial [programs, NETWORKS, N + OUT * N + OUT]: sums over this program's rows of the gradients of the second
    layer's biases, the outputs' weights and the outputs' biases, in this order.
    """
    into = partial + tl.program_id(0).to(tl.int64) * NETWORKS * (N + OUT * N + OUT)
    if NETWORKS > 1:
        network = tl.program_id(1)
        into += network * (N + OUT * N + OUT)
        out_weight += network * COPIES
        second += network.to(tl.int64) * count * N
        by_second += network.to(tl.int64) * count * N
        by_outputs += network.to(tl.int64) * count * OUT
    n = tl.arange(0, TILE_N)
    o = tl.arange(0, OUTPUTS)
    wide, is_output = (n < N)[None, :], (o < OUT)[None, :]
    by_bias = tl.zeros((TILE_N,), tl.float32)
    by_out_weight = tl.zeros((OUTPUTS, TILE_N), tl.float32)
    by_out_bias = tl.zeros((OUTPUTS,), tl.float32)
    out_w = tl.load(out_weight + o[:, None] * N + n[None, :], mask=(o < OUT)[:, None] & wide, other=0.0)
    for begin in range(tl.program_id(0) * TILE_M, count, tl.num_programs(0) * TILE_M):
        m = begin + tl.arange(0, TILE_M)
        exists, row = (m < count)[:, None], m.to(tl.int64)[:, None]
        by_out = tl.load(by_outputs + row * OUT + o[None, :], mask=exists & is_output, other=0.0)
        by_out_bias += tl.sum(by_out, 0)
        by_out = by_out.to(second.dtype.element_ty)
        hidden = tl.load(second + row * N + n[None, :], mask=exists & wide, other=0.0)
        by_out_weight = tl.dot(tl.trans(by_out), hidden, by_out_weight)
        by_hidden = tl.where(hidden > 0, tl.dot(by_out, out_w), 0.0)
        by_bias += tl.sum(by_hidden, 0)
        tl.store(by_second + row * N + n[None, :], by_hidden.to(by_second.dtype.element_ty), exists & wide)
    tl.store(into + n, by_bias, n < N)
    tl.store(into + N + o[:, None] * N + n[None, :], by_out_weight, (o < OUT)[:, None] & wide)
    tl.store(into + N + OUT * N + o, by_out_bias, o < OUT)


@triton.jit(do_not_specialize=["count"])
def by_first_kernel(
    first, by_second, weight, by_first, count,
    H: tl.constexpr, N: tl.constexpr, TILE_M: tl.constexpr, TILE_H: tl.constexpr, TILE_K: tl.constexpr,
    NETWORKS: tl.constexpr = 1, COPIES: tl.constexpr = 0,
):  # fmt: skip
    """by_first [M, H]: the gradient before ReLU of the first hidden layer, by_second [M, N] @ weight [N, H]."""
    if NETWORKS > 1:
        network = tl.program_id(2)
        first += network * H
        by_first += network * H
        weight += network * COPIES
        by_second += network.to(tl.int64) * count * N
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    h = tl.program_id(1) * TILE_H + tl.arange(0, TILE_H)
    k = tl.arange(0, TILE_K)
    exists, wide, row = (m < count)[:, None], (h < H)[None, :], m.to(tl.int64)[:, None]
    total = tl.zeros((TILE_M, TILE_H), tl.float32)
    for at in range(0, N, TILE_K):
        deep = k + at < N
        x = tl.load(by_second + row * N + (k + at)[None, :], mask=exists & deep[None, :], other=0.0)
        w = tl.load(weight + (k + at)[:, None] * H + h[None, :], mask=deep[:, None] & wide, other=0.0)
        total = tl.dot(x, w, total)
    hidden = tl.load(first + row * (NETWORKS * H) + h[None, :], mask=exists & wide, other=0.0)
    found = tl.where(hidden > 0, total, 0.0).to(by_first.dtype.element_ty)
    tl.store(by_first + row * (NETWORKS * H) + h[None, :], found, exists & wide)
