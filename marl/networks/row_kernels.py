"""Triton kernels around the large products of a first layer (stacked_pass.py): from bytes to bf16, and gradients out.

M = rows, W = width of a row, K = W rounded up: the matrices' rows have K numbers. NETWORKS of one shape are computed at
once; each has P parameters: first the weights [H, W] and biases [H] of the first layer, then the rest.
"""

import triton
import triton.language as tl

from arena.encoders import packed

PLANES = tl.constexpr(packed.PLANES)
WAIT_BITS = tl.constexpr(packed.WAIT_BITS)
WAIT = tl.constexpr((1 << packed.WAIT_BITS) - 1)
# Kinds of cells: owners of the first three planes are 0, 1, 2; these are the kinds of the others.
MATE_HEAD = tl.constexpr(packed.MATES + packed.HEADS)
FOE_HEAD = tl.constexpr(packed.FOES + packed.HEADS)
BEAN = tl.constexpr(packed.BEANS)


@triton.jit
def find_rows(rows, idx, next_idx, m, count, BYTES: tl.constexpr, GROUP: tl.constexpr):
    """Pointers to rows m: of idx, or of next_idx in the second half of the grid. GROUP: rows for each index; 0: all."""
    place = m.to(tl.int64)
    if GROUP > 0:
        if tl.program_id(1) == 0:
            found = tl.load(idx + m // GROUP, mask=m < count, other=0)
        else:
            found = tl.load(next_idx + m // GROUP, mask=m < count, other=0)
        place = found * GROUP + m % GROUP
    return rows + place * BYTES


@triton.jit(do_not_specialize=["count"])
def widen_kernel(
    rows, idx, next_idx, x, count,
    W: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, TILE_M: tl.constexpr, TILE_W: tl.constexpr,
):  # fmt: skip
    """x [1 or 2, M, K]: the numbers of rows [.., W]; columns from W on stay as they are."""
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    start = find_rows(rows, idx, next_idx, m, count, W, GROUP)
    into = x + (tl.program_id(1).to(tl.int64) * count + m) * K
    for at in range(0, W, TILE_W):
        w = at + tl.arange(0, TILE_W)
        exists = (m < count)[:, None] & (w < W)[None, :]
        numbers = tl.load(start[:, None] + w[None, :], mask=exists, other=0)
        tl.store(into[:, None] + w[None, :], numbers.to(tl.float32).to(x.dtype.element_ty), exists)


@triton.jit(do_not_specialize=["count"])
def unpack_kernel(
    rows, idx, next_idx, x, count,
    BYTES: tl.constexpr, CELLS: tl.constexpr, REST_AT: tl.constexpr, REST: tl.constexpr, K: tl.constexpr,
    GROUP: tl.constexpr, TILE_M: tl.constexpr, TILE_C: tl.constexpr, TILE_R: tl.constexpr,
):  # fmt: skip
    """The same from packed rows [.., BYTES]. TILE_C, TILE_R: CELLS and REST, rounded up to powers of two."""
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    start = find_rows(rows, idx, next_idx, m, count, BYTES, GROUP)
    into = x + (tl.program_id(1).to(tl.int64) * count + m) * K
    cell, rest = tl.arange(0, TILE_C), tl.arange(0, TILE_R)
    exists = (m < count)[:, None] & (cell < CELLS)[None, :]
    codes = tl.load(start[:, None] + cell[None, :], mask=exists, other=0).to(tl.int32)
    kind, wait = codes >> WAIT_BITS, (codes & WAIT).to(tl.float32)
    for plane in tl.static_range(PLANES):
        if plane < 3:
            numbers = tl.where((kind & 3) == plane, wait, 0.0)
        elif plane == 3:
            numbers = tl.where(kind == MATE_HEAD, 1.0, 0.0)
        elif plane == 4:
            numbers = tl.where(kind == FOE_HEAD, 1.0, 0.0)
        else:
            numbers = tl.where(kind == BEAN, 1.0, 0.0)
        tl.store(into[:, None] + (plane * CELLS + cell)[None, :], numbers.to(x.dtype.element_ty), exists)
    exists = (m < count)[:, None] & (rest < REST)[None, :]
    numbers = tl.load(start[:, None] + (REST_AT + rest)[None, :], mask=exists, other=0).to(tl.float32)
    tl.store(into[:, None] + (rest + PLANES * CELLS)[None, :], numbers.to(x.dtype.element_ty), exists)


@triton.jit
def copy_weights(
    weight, i, network, scale, first, bias, tail,
    W: tl.constexpr, H: tl.constexpr, K: tl.constexpr, P: tl.constexpr, COPIES: tl.constexpr,
):  # fmt: skip
    """Store copies of a network's weights i for the products; see copy_weights_kernel."""
    h, w = i // W, i % W
    is_first, behind = i < H * W, i - H * W
    scaled = weight * tl.load(scale + w, mask=is_first, other=0.0)
    tl.store(first + (network * H + h) * K + w, scaled.to(first.dtype.element_ty), is_first)
    tl.store(bias + network * H + behind, weight.to(bias.dtype.element_ty), (behind >= 0) & (behind < H))
    tl.store(tail + network * COPIES + behind - H, weight.to(tail.dtype.element_ty), (behind >= H) & (i < P))


@triton.jit
def copy_weights_kernel(
    weights, scale, first, bias, tail,
    W: tl.constexpr, H: tl.constexpr, K: tl.constexpr, P: tl.constexpr, COPIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copies of weights [NETWORKS, P] for the products: first [NETWORKS * H, K], scaled; bias [NETWORKS * H]; tail
    [NETWORKS, COPIES]: the parameters behind the first layer."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    network = tl.program_id(1)
    weight = tl.load(weights + network * P + i, mask=i < P, other=0.0)
    copy_weights(weight, i, network, scale, first, bias, tail, W, H, K, P, COPIES)


@triton.jit(do_not_specialize=["programs"])
def collect_gradients_kernel(
    by_first, by_second, partial, scale, gradients, programs,
    W: tl.constexpr, H: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr, COPIES: tl.constexpr,
    NETWORKS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TILE_P: tl.constexpr, TILE_R: tl.constexpr,
):  # fmt: skip
    """gradients [NETWORKS, P] from by_first [NETWORKS * H, K], whose column W is that of the biases, by_second
    [NETWORKS, N, H], and the sums of partial [programs, NETWORKS, rest]: of all that is behind by_second.

    The first BLOCKS programs copy, the others sum.
    """
    network = tl.program_id(1)
    if tl.program_id(0) < BLOCKS:
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        is_first, behind = i < H * W, i - H * W
        is_bias, is_second = (behind >= 0) & (behind < H), (behind >= H) & (behind < H + N * H)
        # Three loads with masks: one with chosen addresses would be number by number.
        h, w = i // W, i % W
        found = tl.load(by_first + (network * H + h) * K + w, mask=is_first, other=0.0).to(tl.float32)
        found *= tl.load(scale + w, mask=is_first, other=0.0)
        found += tl.load(by_first + (network * H + behind) * K + W, mask=is_bias, other=0.0).to(tl.float32)
        found += tl.load(by_second + network * (N * H) + behind - H, mask=is_second, other=0.0).to(tl.float32)
        tl.store(gradients + network * P + i, found, behind < H + N * H)
    else:
        REST: tl.constexpr = P - H * W - H - N * H
        r = (tl.program_id(0) - BLOCKS) * TILE_R + tl.arange(0, TILE_R)
        total = tl.zeros((TILE_P, TILE_R), tl.float32)
        for begin in range(0, programs, TILE_P):
            p = begin + tl.arange(0, TILE_P)
            exists = (p < programs)[:, None] & (r < REST)[None, :]
            total += tl.load(partial + (p[:, None] * NETWORKS + network) * REST + r[None, :], mask=exists, other=0.0)
        tl.store(gradients + network * P + P - REST + r, tl.sum(total, 0), r < REST)
