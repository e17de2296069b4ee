"""Matrix products for compiled code: the function of the BLAS library that torch itself calls.

A product of small matrices takes torch 5 to 10 us beside the work: its dispatcher, and Python. Compiled code calls the
library by the address of the function. Library and arguments are those of torch, so results are equal to the bit.

torch for ARM has OpenBLAS with the C interface `cblas_sgemm`. torch for x86 contains MKL, of which other code sees the
Fortran interface `sgemm_` only (torch 2.11); torch calls this function, too.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from arena.jit import njit
from marl.compute import onednn

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of the C interface of BLAS
C, FORTRAN = 0, 1  # interfaces
NAMES = {"cblas_sgemm": C, "sgemm_": FORTRAN}  # in the order in which they are tried


@cache
def sgemm_name() -> str | None:
    """The name of the function in torch's libraries; None if they show none that multiplies."""
    if numba.config.DISABLE_JIT:
        return None
    return next((name for name in NAMES if _address(name) and _multiplies(name)), None)


def sgemm_function() -> tuple[int, int]:
    """Address and interface of the function, for `sgemm`."""
    name = sgemm_name()
    if name is None:
        raise RuntimeError("torch shows no BLAS library")
    return _address(name), NAMES[name]


@cache
def _torch_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return None


def _address(name: str) -> int:
    """The address of a function of torch's libraries; 0 if they do not show it."""
    return ctypes.cast(getattr(_torch_library(), name, None), ctypes.c_void_p).value or 0


def _multiplies(name: str) -> bool:
    """Whether the function gives the right product of two small matrices."""
    rows, inner, columns = map(ctypes.c_int64, (2, 3, 4))
    one, zero = map(ctypes.c_float, (1, 0))
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.full((2, 4), np.nan, np.float32)
    a_data, b_data, out_data = (ctypes.c_void_p(each.ctypes.data) for each in (a, b, out))
    if NAMES[name] == C:
        orders = map(ctypes.c_int64, (ROW_MAJOR, PLAIN, PLAIN))
        arguments = [*orders, rows, columns, inner, one, a_data, inner, b_data, columns, zero, out_data, columns]
    else:
        numbers: Any = (columns, rows, inner, one, columns, inner, zero, columns)
        m, n, k, alpha, b_row, a_row, beta, out_row = map(ctypes.byref, numbers)
        arguments = [b"N", b"N", m, n, k, alpha, b_data, b_row, a_data, a_row, beta, out_data, out_row]
    getattr(_torch_library(), name)(*arguments)
    return np.array_equal(out, (a[:, :, None] * b).sum(1))


def is_usable() -> bool:
    """Whether compiled code that calls the library takes the place of torch's calls: on one thread, as in a rank or in
    one of two halves, and not where torch's products are oneDNN's (on x86 they never are)."""
    by_onednn = onednn.needs_measurement() and onednn.mkldnn.enabled
    return torch.get_num_threads() == 1 and not by_onednn and sgemm_name() is not None


@njit
def sgemm(function, a_order, b_order, rows, columns, inner, a, a_row, b, b_row, beta, out):
    """out [rows, columns] = a @ b + beta * out, for whole arrays of float32.

    function: sgemm_function(). a_order, b_order: PLAIN or TRANSPOSED; a is [rows, inner] or lies in memory as its
    transpose, b likewise. a_row, b_row: numbers in a row of what lies in memory. beta is a float32.
    """
    address, interface = function
    if interface == C:
        _call_c(address, a_order, b_order, rows, columns, inner, a, a_row, b, b_row, beta, out)
    else:
        # Fortran's matrices lie in memory as the transposes of ours: out.T = b.T @ a.T. torch does the same.
        _call_fortran(address, b_order, a_order, columns, rows, inner, b, b_row, a, a_row, beta, out, columns)


# Integers have 64 bits, of which a library for 32 bits reads the lower half: registers, and places on the stack, have
# 64 bits on Linux, and of an integer in memory the lower half comes first.


@intrinsic
def _call_c(typingctx, address, a_order, b_order, rows, columns, inner, a, a_row, b, b_row, beta, out):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, *orders_and_sizes = values[:6]
        a, b, out = (_data(context, builder, signature, values, i) for i in (6, 8, 11))
        columns = orders_and_sizes[3]
        arguments = [ir.Constant(ir.IntType(64), ROW_MAJOR), *orders_and_sizes, ir.Constant(ir.FloatType(), 1.0)]
        arguments += [a, values[7], b, values[9], values[10], out, columns]
        return _call(context, builder, address, arguments)

    size = types.int64
    return types.void(size, size, size, size, size, size, a, size, b, size, types.float32, out), generate


@intrinsic
def _call_fortran(typingctx, address, a_order, b_order, rows, columns, inner, a, a_row, b, b_row, beta, out, out_row):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        transposed, plain = (ir.Constant(ir.IntType(8), ord(letter)) for letter in "TN")
        orders = [
            builder.select(builder.icmp_signed("==", order, order.type(TRANSPOSED)), transposed, plain)
            for order in values[1:3]
        ]
        a, b, out = (_data(context, builder, signature, values, i) for i in (6, 8, 11))
        numbers = [*orders, *values[3:6], ir.Constant(ir.FloatType(), 1.0), values[7], *values[9:11], values[12]]
        places = [cgutils.alloca_once_value(builder, number) for number in numbers]
        return _call(context, builder, values[0], [*places[:6], a, places[6], b, *places[7:9], out, places[9]])

    size = types.int64
    return types.void(size, size, size, size, size, size, a, size, b, size, types.float32, out, size), generate


def _data(context: Any, builder: Any, signature: Any, values: Any, i: int) -> Any:
    """The pointer to the numbers of an array among the arguments of an intrinsic."""
    array = context.make_array(signature.args[i])(context, builder, values[i])
    return builder.bitcast(array.data, ir.FloatType().as_pointer())


def _call(context: Any, builder: Any, address: Any, arguments: Any) -> Any:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)
    return context.get_dummy_value()
