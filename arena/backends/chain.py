"""Runs bound loops one after the other, again and again, in one compiled call.

A loop over few items takes microseconds, and so does its call from Python: arguments are unpacked each time, and what
Python does between two loops pushes their code and data out of the caches.

A program is an array of machine words: for each loop its address, then its arguments as compiled code takes them. So
nothing is unpacked at a call, and the call is small, whatever the loops do: it compiles in a third of a second.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from arena.backends.parallel import address_of, types_of
from arena.jit import njit


class _Kinds:
    """The Numba types of the arguments of each loop of a chain."""

    def __init__(self, kinds: tuple[tuple[types.Type, ...], ...]) -> None:
        self.kinds = kinds


class _KindsType(types.Opaque):
    """The type of such an object: a chain is compiled for it. It has no value at run time."""

    def __init__(self, kinds: tuple[tuple[types.Type, ...], ...]) -> None:
        self.kinds = kinds
        super().__init__(f"kinds({kinds})")


register_model(_KindsType)(models.OpaqueModel)


@typeof_impl.register(_Kinds)
def _type_of_kinds(value: _Kinds, _: Any) -> _KindsType:
    return _KindsType(value.kinds)


@unbox(_KindsType)
def _unbox_kinds(_: Any, __: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


def _from_word(builder: Any, word: Any, kind: Any) -> Any:
    """A machine word as a value of an LLVM type."""
    if isinstance(kind, ir.PointerType):
        return builder.inttoptr(word, kind)
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(word, kind)
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(builder.trunc(word, ir.IntType(32)), kind)
    return word if kind.width == word.type.width else builder.trunc(word, kind)


def _words(value: Any) -> Iterator[int]:
    """The words of an argument, in the order in which Numba passes the parts of its type."""
    if isinstance(value, np.ndarray):
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)  # owned by none
    elif isinstance(value, tuple):
        for item in value:
            yield from _words(item)
    elif isinstance(value, np.float32):
        yield int(value.view(np.uint32))
    elif isinstance(value, float):
        yield int(np.float64(value).view(np.int64))
    else:
        yield int(value)


if numba.config.DISABLE_JIT:

    def _call_each(_, program):
        for call in program:
            call()

else:

    @intrinsic
    def _call_each(_, kinds, program):
        """Call the functions without result of a program, each with its arguments, of these kinds."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            words = context.make_array(signature.args[1])(context, builder, values[1]).data
            count = 0

            def next_word() -> Any:
                nonlocal count
                count += 1
                return builder.load(cgutils.gep_inbounds(builder, words, count - 1))

            for each in kinds.kinds:
                function_type = context.call_conv.get_function_type(types.none, each)
                function = builder.inttoptr(next_word(), function_type.as_pointer())
                packer = context.get_arg_packer(each)
                parts = packer.from_arguments(
                    builder, [_from_word(builder, next_word(), kind) for kind in packer.argument_types]
                )
                status, _ = context.call_conv.call_function(builder, function, types.none, each, parts)
                with cgutils.if_unlikely(builder, status.is_error):
                    context.call_conv.return_status_propagate(builder, status)
            return context.get_dummy_value()

        return types.none(kinds, program), generate


@njit
def _repeat(times, kinds, program):
    for _ in range(times):
        _call_each(kinds, program)


def as_bound(call: Callable[[], None]) -> partial:
    """A loop with its arguments, as the loops of a CPU are bound."""
    if not isinstance(call, partial):
        raise TypeError(f"{call!r} is not a compiled loop bound for one core")
    return call


def chain(calls: Sequence[Callable[[], None]]) -> Callable[[int], None]:
    """A call that makes these calls in order, as often as its argument says. calls: compiled loops bound for one core.

    The loops are compiled at the first call. Arrays are read and written where they are; numbers are fixed.
    """
    bound = [as_bound(call) for call in calls]
    program: tuple[Any, ...] = ()

    def repeat(times: int) -> None:
        nonlocal program
        if not program:
            program = _program(bound)
        _repeat(times, *program)

    return repeat


def _program(bound: Sequence[partial]) -> tuple[Any, Any]:
    """The types of all arguments, and the words."""
    if numba.config.DISABLE_JIT:
        return None, bound
    words = [word for call in bound for word in (address_of(call.func, call.args), *_words(call.args))]
    kinds = _Kinds(tuple(types_of(call.func, call.args) for call in bound))
    return kinds, np.array([word & (1 << 64) - 1 for word in words], np.uint64)
