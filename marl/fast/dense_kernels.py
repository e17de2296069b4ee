"""Forward and backward passes of dense networks in one compiled call each (dense_pass.py). Everything is float32.

L = layers, N = rows. Matrix products are those of torch's BLAS library; function: compute/blas.py's sgemm_function().
What is summed over rows is summed in the order of torch's `sum` on ARM, so that results are equal to the bit to those
of torch's own calls on one thread. On x86 torch takes more columns at once, and the last bits of these sums differ.
"""

import numpy as np

from arena.jit import njit
from marl.fast.blas import PLAIN, TRANSPOSED, sgemm

# Of torch's sum over rows: it adds up so many rows, then so many of those sums, and so on. So are the columns that it
# takes at once; those that are left over are summed in four interleaved parts.
CASCADE, LEVELS, TOGETHER, INTERLEAVED = 16, 4, 16, 4
ZERO, ONE = np.float32(0.0), np.float32(1.0)


@njit
def to_floats(numbers, floats):
    """Copy an encoder's integers [N, W]."""
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            floats[i, j] = numbers[i, j]


@njit
def forward(function, scale, scaled, weights, biases, inputs, outputs):
    """outputs[l] = inputs[l] @ weights[l].T + biases[l], with ReLU but for the last layer. Tuples of L arrays.

    weights[0] is multiplied by scale first, into `scaled`.
    """
    for i in range(scaled.shape[0]):
        for j in range(scaled.shape[1]):
            scaled[i, j] = weights[0][i, j] * scale[j]
    last = len(weights) - 1
    for layer in range(len(weights)):
        weight = scaled if layer == 0 else weights[layer]
        x, out, bias = inputs[layer], outputs[layer], biases[layer]
        rows, width, inner = out.shape[0], out.shape[1], x.shape[1]
        for i in range(rows):
            for j in range(width):
                out[i, j] = bias[j]
        sgemm(function, PLAIN, TRANSPOSED, rows, width, inner, x, inner, weight, inner, ONE, out)
        if layer < last:
            for i in range(rows):
                for j in range(width):
                    value = out[i, j]
                    out[i, j] = ZERO if value <= ZERO else value  # NaN stays


@njit
def backward(function, scale, weights, inputs, by_outputs, by_weights, by_biases, levels):
    """Gradients of weights and biases. by_outputs: of the outputs of every layer; the last one is given.

    inputs[l] for l > 0 are the outputs of layer l - 1 after ReLU. levels [LEVELS, widest]: for sums.
    """
    for back in range(len(weights)):
        layer = len(weights) - 1 - back
        x, by_output, by_weight = inputs[layer], by_outputs[layer], by_weights[layer]
        rows, width, inner = x.shape[0], by_output.shape[1], x.shape[1]
        sgemm(function, TRANSPOSED, PLAIN, width, inner, rows, by_output, width, x, inner, ZERO, by_weight)
        sum_rows(by_output, levels, by_biases[layer])
        if layer > 0:
            by_input = by_outputs[layer - 1]
            sgemm(function, PLAIN, PLAIN, rows, inner, width, by_output, width, weights[layer], inner, ZERO, by_input)
            for i in range(rows):
                for j in range(inner):
                    value = by_input[i, j]  # read in any case: without a branch the loop is 20 times as fast
                    by_input[i, j] = ZERO if x[i, j] <= ZERO else value
    by_weight = by_weights[0]
    for i in range(by_weight.shape[0]):
        for j in range(by_weight.shape[1]):
            by_weight[i, j] *= scale[j]


@njit
def multiply(numbers, factor):
    """Multiply numbers [N] by a factor, in place."""
    for i in range(numbers.shape[0]):
        numbers[i] *= factor


@njit
def sum_rows(matrix, levels, sums):
    """sums [K] of the rows of a matrix [N, K], in the order of torch's sum. levels [LEVELS, K or more]: overwritten."""
    rows, columns = matrix.shape
    together = columns // TOGETHER * TOGETHER
    for level in range(LEVELS):
        for j in range(together):
            levels[level, j] = ZERO
    for i in range(rows):
        for j in range(together):
            levels[0, j] += matrix[i, j]
        added, level = i + 1, 0
        while added % CASCADE == 0 and level < LEVELS - 1:
            for j in range(together):
                levels[level + 1, j] += levels[level, j]
                levels[level, j] = ZERO
            added //= CASCADE
            level += 1
    for j in range(together):
        sums[j] = ((levels[0, j] + levels[1, j]) + levels[2, j]) + levels[3, j]
    for j in range(together, columns):
        sums[j] = _sum_column(matrix, j)


@njit
def mean_rows(matrix, levels, means):
    """means [K] of the rows of a matrix [N, K], rounded as torch's mean."""
    sum_rows(matrix, levels, means)
    for j in range(means.shape[0]):
        means[j] /= np.float32(matrix.shape[0])


@njit
def _sum_column(matrix, j):
    """The sum of one column in INTERLEAVED parts, each summed as above."""
    rows = matrix.shape[0] // INTERLEAVED
    total = ZERO
    for part in range(INTERLEAVED):
        a, b, c, d = ZERO, ZERO, ZERO, ZERO  # levels
        for i in range(rows):
            a += matrix[INTERLEAVED * i + part, j]
            if (i + 1) % CASCADE == 0:
                b += a
                a = ZERO
                if (i + 1) % CASCADE**2 == 0:
                    c += b
                    b = ZERO
                    if (i + 1) % CASCADE**3 == 0:
                        d += c
                        c = ZERO
        a = ((a + b) + c) + d
        if part == 0:
            for i in range(INTERLEAVED * rows, matrix.shape[0]):
                a += matrix[i, j]
        total += a
    return total


@njit
def gather_rows(matrix, idx, rows):
    """rows [M, n] = matrix [all, n] at idx [M]; numbers become those of `rows`, as integers floats.

    For small batches torch's index_select takes four times as long.
    """
    for i in range(idx.shape[0]):
        row = int(idx[i])
        for j in range(rows.shape[1]):
            rows[i, j] = matrix[row, j]
