"""Triton kernels of an LSTM (lstm_pass.py). Imported only where Triton is used.

T = turns, N = snakes, H = hidden size, a power of two. The four gates of a snake lie side by side, [4 H], in the order
of torch.nn.LSTMCell: input, forget, candidate, output. Matrix products are of numbers in bf16, summed in fp32; gates
are computed in fp32. (Triton's interpreter cannot multiply in bf16: tests give it fp32.)

A kernel over turns has one program for each tile of snakes. Its hidden states go through memory: the barrier at the end
of a turn makes what one thread has written visible to the others of the program.
"""

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit(do_not_specialize=["snakes", "turns"])
def forward_kernel(
    gates, weight, is_first, h, c, factors, snakes, turns,
    Z: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    """All turns. gates [T, N, 4 H]: what the inputs contribute; they are replaced by the gates after their functions.

    h, c [T + 1, N, H]: the states before each turn, the first of them given. factors [T, N, Z]: its first H columns get
    h as the product read it, 0 where is_first [T, N]. weight: [4 H, H].
    """
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    exists = row < snakes
    k = tl.arange(0, H)
    for turn in range(turns):
        at = tl.cast(turn, tl.int64) * snakes + row
        kept = (tl.load(is_first + at, mask=exists, other=1) == 0)[:, None]
        inside = exists[:, None]
        before = tl.load(h + at[:, None] * H + k[None, :], mask=kept, other=0.0)
        tl.store(factors + at[:, None] * Z + k[None, :], before, inside)
        for start in range(0, H, UNITS):
            unit = start + tl.arange(0, UNITS)
            state = at[:, None] * H + unit[None, :]
            gate = gates + at[:, None] * (4 * H) + unit[None, :]
            a = tl.load(gate, mask=inside, other=0.0)
            b = tl.load(gate + H, mask=inside, other=0.0)
            d = tl.load(gate + 2 * H, mask=inside, other=0.0)
            e = tl.load(gate + 3 * H, mask=inside, other=0.0)
            c_before = tl.load(c + state, mask=kept, other=0.0)
            columns = weight + unit[None, :] * H + k[:, None]
            into = tl.sigmoid(tl.dot(before, tl.load(columns)) + a)
            forget = tl.sigmoid(tl.dot(before, tl.load(columns + H * H)) + b)
            new = tanh(tl.dot(before, tl.load(columns + 2 * H * H)) + d)
            out = tl.sigmoid(tl.dot(before, tl.load(columns + 3 * H * H)) + e)
            c_after = forget * c_before + into * new
            dtype: tl.constexpr = gates.dtype.element_ty
            tl.store(gate, into.to(dtype), inside)
            tl.store(gate + H, forget.to(dtype), inside)
            tl.store(gate + 2 * H, new.to(dtype), inside)
            tl.store(gate + 3 * H, out.to(dtype), inside)
            following = state + tl.cast(snakes, tl.int64) * H
            tl.store(c + following, c_after, inside)
            tl.store(h + following, (out * tanh(c_after)).to(dtype), inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["snakes", "turns"])
def backward_kernel(
    by_outputs, gates, weight, is_first, c, by_gates, by_h, by_c, snakes, turns,
    H: tl.constexpr, TILE: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    """All turns, from the last one back. by_outputs [T, N, H]: gradients of h after each turn.

    by_gates [T, N, 4 H] gets the gradients of the gates before their functions, by_h and by_c [N, H] those of the first
    states; until then they hold the gradients of the states before the turn. The rest is what forward_kernel has left.
    """
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    exists = row < snakes
    inside = exists[:, None]
    k = tl.arange(0, H)
    for step in range(turns):
        turn = turns - 1 - step
        at = tl.cast(turn, tl.int64) * snakes + row
        kept = (tl.load(is_first + at, mask=exists, other=1) == 0)[:, None]
        has_next = inside & (step > 0)
        by_before = tl.zeros((TILE, H), tl.float32)
        for start in range(0, H, UNITS):
            unit = start + tl.arange(0, UNITS)
            state = at[:, None] * H + unit[None, :]
            carried = row.to(tl.int64)[:, None] * H + unit[None, :]
            gate = at[:, None] * (4 * H) + unit[None, :]
            into = tl.load(gates + gate, mask=inside, other=0.0).to(tl.float32)
            forget = tl.load(gates + gate + H, mask=inside, other=0.0).to(tl.float32)
            new = tl.load(gates + gate + 2 * H, mask=inside, other=0.0).to(tl.float32)
            out = tl.load(gates + gate + 3 * H, mask=inside, other=0.0).to(tl.float32)
            c_before = tl.load(c + state, mask=kept, other=0.0)
            c_after = tl.load(c + state + tl.cast(snakes, tl.int64) * H, mask=inside, other=0.0)
            by_out = tl.load(by_outputs + state, mask=inside, other=0.0).to(tl.float32)
            by_out += tl.load(by_h + carried, mask=has_next, other=0.0)
            by_cell = tl.load(by_c + carried, mask=has_next, other=0.0)
            squashed = tanh(c_after)
            by_cell += by_out * out * (1 - squashed * squashed)
            tl.store(by_c + carried, tl.where(kept, by_cell * forget, 0.0), inside)
            dtype: tl.constexpr = by_gates.dtype.element_ty
            by_into = (by_cell * new * into * (1 - into)).to(dtype)
            by_forget = (by_cell * c_before * forget * (1 - forget)).to(dtype)
            by_new = (by_cell * into * (1 - new * new)).to(dtype)
            by_out = (by_out * squashed * out * (1 - out)).to(dtype)
            tl.store(by_gates + gate, by_into, inside)
            tl.store(by_gates + gate + H, by_forget, inside)
            tl.store(by_gates + gate + 2 * H, by_new, inside)
            tl.store(by_gates + gate + 3 * H, by_out, inside)
            lines = weight + unit[:, None] * H + k[None, :]
            by_before = tl.dot(by_into, tl.load(lines), by_before)
            by_before = tl.dot(by_forget, tl.load(lines + H * H), by_before)
            by_before = tl.dot(by_new, tl.load(lines + 2 * H * H), by_before)
            by_before = tl.dot(by_out, tl.load(lines + 3 * H * H), by_before)
        # by_h is still read by other threads above: they have to be done with it.
        tl.debug_barrier()
        tl.store(by_h + row.to(tl.int64)[:, None] * H + k[None, :], tl.where(kept, by_before, 0.0), inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["snakes"])
def step_kernel(
    x, input_weight, weight, bias, is_first, hidden, after, h_after, snakes,
    INPUTS: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr, UNITS: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """One turn, without what a gradient needs: inputs x [N, INPUTS] and hidden [2, N, H] to `after` of the same shape.

    h_after [N, H]: h once more, in the type of x. input_weight: [4 H, INPUTS], bias: [4 H].
    """
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    exists, k = row < snakes, tl.arange(0, TILE_K)
    inside = exists[:, None]
    kept = (tl.load(is_first + row, mask=exists, other=1) == 0)[:, None]
    at = row.to(tl.int64)[:, None]
    dtype: tl.constexpr = x.dtype.element_ty
    into = tl.zeros((TILE, UNITS), tl.float32)
    forget = tl.zeros((TILE, UNITS), tl.float32)
    new = tl.zeros((TILE, UNITS), tl.float32)
    out = tl.zeros((TILE, UNITS), tl.float32)
    for start in range(0, INPUTS, TILE_K):
        given = (start + k) < INPUTS
        rows = tl.load(x + at * INPUTS + (start + k)[None, :], mask=inside & given[None, :], other=0.0)
        columns = input_weight + unit[None, :] * INPUTS + (start + k)[:, None]
        given = given[:, None]
        into = tl.dot(rows, tl.load(columns, mask=given, other=0.0), into)
        forget = tl.dot(rows, tl.load(columns + H * INPUTS, mask=given, other=0.0), forget)
        new = tl.dot(rows, tl.load(columns + 2 * H * INPUTS, mask=given, other=0.0), new)
        out = tl.dot(rows, tl.load(columns + 3 * H * INPUTS, mask=given, other=0.0), out)
    for start in range(0, H, TILE_K):
        rows = tl.load(hidden + at * H + (start + k)[None, :], mask=kept, other=0.0).to(dtype)
        columns = weight + unit[None, :] * H + (start + k)[:, None]
        into = tl.dot(rows, tl.load(columns), into)
        forget = tl.dot(rows, tl.load(columns + H * H), forget)
        new = tl.dot(rows, tl.load(columns + 2 * H * H), new)
        out = tl.dot(rows, tl.load(columns + 3 * H * H), out)
    into = tl.sigmoid(into + tl.load(bias + unit)[None, :])
    forget = tl.sigmoid(forget + tl.load(bias + H + unit)[None, :])
    new = tanh(new + tl.load(bias + 2 * H + unit)[None, :])
    out = tl.sigmoid(out + tl.load(bias + 3 * H + unit)[None, :])
    state = at * H + unit[None, :]
    all_c = tl.cast(snakes, tl.int64) * H
    c_after = forget * tl.load(hidden + all_c + state, mask=kept, other=0.0) + into * new
    h = (out * tanh(c_after)).to(dtype)
    tl.store(after + state, h.to(tl.float32), inside)
    tl.store(after + all_c + state, c_after, inside)
    tl.store(h_after + state, h, inside)
