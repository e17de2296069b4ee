"""Triton kernels of an LSTM whose weights stay in shared memory for all turns; as lstm_kernels.py else.

For GPUs whose matrix units read both factors from shared memory (Hopper), and hidden sizes whose weights [4 H, H] fit
there in bf16. Tiles are [H, snakes], so that the weights are the factor with many rows. States stay in registers.
"""

import triton
import triton.language as tl

from marl.networks.lstm_kernels import tanh


@triton.jit
def load_gates(gates, is_first, at, exists, unit, H: tl.constexpr):
    """The four gates of a turn, and which snakes keep their states. at: rows of [T N]."""
    gate, inside = gates + at[None, :] * (4 * H) + unit, exists[None, :]
    kept = (tl.load(is_first + at, mask=exists, other=1) == 0)[None, :]
    into = tl.load(gate, mask=inside, other=0.0)
    forget = tl.load(gate + H, mask=inside, other=0.0)
    new = tl.load(gate + 2 * H, mask=inside, other=0.0)
    out = tl.load(gate + 3 * H, mask=inside, other=0.0)
    return into, forget, new, out, kept


@triton.jit
def store_gates(gate, into, forget, new, out, inside, H: tl.constexpr):
    tl.store(gate, into, inside)
    tl.store(gate + H, forget, inside)
    tl.store(gate + 2 * H, new, inside)
    tl.store(gate + 3 * H, out, inside)


@triton.jit(do_not_specialize=["snakes", "turns"])
def forward_kernel(
    gates, weight, is_first, h, c, factors, snakes, turns, Z: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """As lstm_kernels.forward_kernel."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside, unit = (row < snakes)[None, :], tl.arange(0, H)[:, None]
    weights = weight + unit * H + tl.arange(0, H)[None, :]
    of_into, of_forget = tl.load(weights), tl.load(weights + H * H)
    of_new, of_out = tl.load(weights + 2 * H * H), tl.load(weights + 3 * H * H)
    dtype: tl.constexpr = gates.dtype.element_ty
    first = row.to(tl.int64)[None, :] * H + unit
    h_now = tl.load(h + first, mask=inside, other=0.0)
    c_now = tl.load(c + first, mask=inside, other=0.0)
    a, b, d, e, kept = load_gates(gates, is_first, row.to(tl.int64), row < snakes, unit, H)
    for turn in range(turns):
        at = tl.cast(turn, tl.int64) * snakes + row
        # Those of the next turn arrive while this one is computed.
        has_next = row < tl.where(turn + 1 < turns, snakes, 0)
        loaded = load_gates(gates, is_first, at + snakes, has_next, unit, H)
        at = at[None, :]
        h_now = tl.where(kept, h_now, tl.zeros_like(h_now))
        tl.store(factors + at * Z + unit, h_now, inside)
        into = tl.sigmoid(tl.dot(of_into, h_now) + a)
        forget = tl.sigmoid(tl.dot(of_forget, h_now) + b)
        new = tanh(tl.dot(of_new, h_now) + d)
        out = tl.sigmoid(tl.dot(of_out, h_now) + e)
        store_gates(
            gates + at * (4 * H) + unit, into.to(dtype), forget.to(dtype), new.to(dtype), out.to(dtype), inside, H
        )
        c_now = forget * tl.where(kept, c_now, 0.0) + into * new
        h_now = (out * tanh(c_now)).to(dtype)
        tl.store(c + (at + snakes) * H + unit, c_now, inside)
        tl.store(h + (at + snakes) * H + unit, h_now, inside)
        a, b, d, e, kept = loaded


@triton.jit(do_not_specialize=["snakes", "turns"])
def backward_kernel(
    by_outputs, gates, weight, is_first, c, by_gates, by_h, by_c, snakes, turns, H: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """As lstm_kernels.backward_kernel."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside, unit = (row < snakes)[None, :], tl.arange(0, H)[:, None]
    weights = weight + tl.arange(0, H)[None, :] * H + unit
    of_into, of_forget = tl.load(weights), tl.load(weights + H * H)
    of_new, of_out = tl.load(weights + 2 * H * H), tl.load(weights + 3 * H * H)
    dtype: tl.constexpr = by_gates.dtype.element_ty
    last = tl.cast(turns - 1, tl.int64) * snakes + row
    i, f, g, o, kept = load_gates(gates, is_first, last, row < snakes, unit, H)
    c_after = tl.load(c + (last + snakes)[None, :] * H + unit, mask=inside, other=0.0)
    by_after = tl.zeros((H, TILE), tl.float32)
    by_cell = tl.zeros((H, TILE), tl.float32)
    c_before = tl.load(c + last[None, :] * H + unit, mask=inside, other=0.0)
    by_output = tl.load(by_outputs + last[None, :] * H + unit, mask=inside, other=0.0)
    for step in range(turns):
        turn = turns - 1 - step
        at = tl.cast(turn, tl.int64) * snakes + row
        # Those of the turn before arrive while this one is computed.
        has_next = row < tl.where(turn > 0, snakes, 0)
        loaded = load_gates(gates, is_first, at - snakes, has_next, unit, H)
        at, has_next = at[None, :], has_next[None, :]
        next_c = tl.load(c + (at - snakes) * H + unit, mask=has_next, other=0.0)
        next_output = tl.load(by_outputs + (at - snakes) * H + unit, mask=has_next, other=0.0)
        into, forget, new, out = i.to(tl.float32), f.to(tl.float32), g.to(tl.float32), o.to(tl.float32)
        by_out = by_output.to(tl.float32) + by_after
        squashed = tanh(c_after)
        by_cell += by_out * out * (1 - squashed * squashed)
        by_into = (by_cell * new * into * (1 - into)).to(dtype)
        by_forget = (by_cell * tl.where(kept, c_before, 0.0) * forget * (1 - forget)).to(dtype)
        by_new = (by_cell * into * (1 - new * new)).to(dtype)
        by_out = (by_out * squashed * out * (1 - out)).to(dtype)
        store_gates(by_gates + at * (4 * H) + unit, by_into, by_forget, by_new, by_out, inside, H)
        total = tl.dot(of_into, by_into)
        total = tl.dot(of_forget, by_forget, total)
        total = tl.dot(of_new, by_new, total)
        total = tl.dot(of_out, by_out, total)
        by_after = tl.where(kept, total, 0.0)
        by_cell = tl.where(kept, by_cell * forget, 0.0)
        c_after, c_before, by_output = c_before, next_c, next_output
        i, f, g, o, kept = loaded
    first = row.to(tl.int64)[None, :] * H + unit
    tl.store(by_h + first, by_after, inside)
    tl.store(by_c + first, by_cell, inside)


@triton.jit
def load_states(hidden, row, kept, unit, all_c, H: tl.constexpr):
    """h and c of snakes, 0 where they are not kept."""
    at = hidden + row.to(tl.int64)[None, :] * H + unit
    return tl.load(at, mask=kept, other=0.0), tl.load(at + all_c, mask=kept, other=0.0)


@triton.jit(do_not_specialize=["snakes"])
def step_kernel(gates, weight, is_first, hidden, after, h_after, snakes, H: tl.constexpr, TILE: tl.constexpr):
    """One turn, without what a gradient needs. gates [N, 4 H]: what the inputs contribute.

    hidden [2, N, H]: before the turn; `after` gets it after the turn and may be the same tensor. h_after [N, H]: h once
    more, in the type of the gates.
    """
    unit, all_c = tl.arange(0, H)[:, None], tl.cast(snakes, tl.int64) * H
    weights = weight + unit * H + tl.arange(0, H)[None, :]
    of_into, of_forget = tl.load(weights), tl.load(weights + H * H)
    of_new, of_out = tl.load(weights + 2 * H * H), tl.load(weights + 3 * H * H)
    dtype: tl.constexpr = gates.dtype.element_ty
    step = tl.num_programs(0) * TILE
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    a, b, d, e, kept = load_gates(gates, is_first, row.to(tl.int64), row < snakes, unit, H)
    h_now, c_now = load_states(hidden, row, kept, unit, all_c, H)
    for _ in range(tl.program_id(0) * TILE, snakes, step):
        # Those of the next tile arrive while this one is computed.
        loaded = load_gates(gates, is_first, row.to(tl.int64) + step, row + step < snakes, unit, H)
        next_h, next_c = load_states(hidden, row + step, loaded[4], unit, all_c, H)
        h_now = h_now.to(dtype)
        into = tl.sigmoid(tl.dot(of_into, h_now) + a)
        forget = tl.sigmoid(tl.dot(of_forget, h_now) + b)
        new = tanh(tl.dot(of_new, h_now) + d)
        out = tl.sigmoid(tl.dot(of_out, h_now) + e)
        c_after = forget * c_now + into * new
        h = (out * tanh(c_after)).to(dtype)
        state, inside = row.to(tl.int64)[None, :] * H + unit, (row < snakes)[None, :]
        tl.store(after + state, h.to(tl.float32), inside)
        tl.store(after + all_c + state, c_after, inside)
        tl.store(h_after + state, h, inside)
        row += step
        h_now, c_now = next_h, next_c
        a, b, d, e, kept = loaded
