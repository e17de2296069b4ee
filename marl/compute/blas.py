"""Matrix products for compiled code: the function of the BLAS library that torch itself calls.

A product of small matrices takes torch 5 to 10 us beside the work: its dispatcher, and Python. Compiled code calls the
library by the address of the function. Library and arguments are those of torch, so results are equal to the bit.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numba
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from marl.compute import onednn

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of the C interface of BLAS


@cache
def sgemm_address() -> int | None:
    """The address of cblas_sgemm in torch's libraries; None if they do not show it."""
    if numba.config.DISABLE_JIT:
        return None
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        return ctypes.cast(ctypes.CDLL(str(library)).cblas_sgemm, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def is_usable() -> bool:
    """Whether compiled code that calls the library takes the place of torch's calls: on one thread, as in a rank or in
    one of two halves, and not where torch's products are oneDNN's (on x86 they never are)."""
    by_onednn = onednn.needs_measurement() and onednn.mkldnn.enabled
    return torch.get_num_threads() == 1 and not by_onednn and sgemm_address() is not None


@intrinsic
def sgemm(typingctx, address, a_order, b_order, rows, columns, inner, a, a_row, b, b_row, beta, out):  # type: ignore[no-untyped-def]
    """out [rows, columns] = a @ b + beta * out, for whole arrays of float32.

    address: sgemm_address(). a_order, b_order: PLAIN or TRANSPOSED; a is [rows, inner] or lies in memory as its
    transpose, b likewise. a_row, b_row: numbers in a row of what lies in memory. beta is a float32.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # Integers have 64 bits, of which a library for 32 bits reads the lower half: registers, and places on the
        # stack, have 64 bits on Linux.
        number, pointer = ir.FloatType(), ir.FloatType().as_pointer()
        address, *orders_and_sizes = values[:6]
        a, b, out = (
            builder.bitcast(context.make_array(signature.args[i])(context, builder, values[i]).data, pointer)
            for i in (6, 8, 11)
        )
        columns = orders_and_sizes[3]
        arguments = [ir.Constant(ir.IntType(64), ROW_MAJOR), *orders_and_sizes, ir.Constant(number, 1.0)]
        arguments += [a, values[7], b, values[9], values[10], out, columns]
        kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)
        return context.get_dummy_value()

    size = types.int64
    return types.void(size, size, size, size, size, size, a, size, b, size, types.float32, out), generate
