"""Runs bound loops one after the other, again and again, in one compiled call.

A loop over few items takes microseconds, and so does its call from Python: arguments are unpacked each time, and what
Python does between two loops pushes their code and data out of the caches. Loops are called by their addresses, so the
compiled call is small, whatever they do.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from arena.backends.parallel import address_of
from arena.jit import njit

if numba.config.DISABLE_JIT:

    def _call_each(functions, arguments):
        for function, each in zip(functions, arguments, strict=True):
            function(*each)

else:

    @intrinsic
    def _call_each(_, addresses, arguments):
        """Call the functions without result at addresses (a tuple), each with its tuple of arguments."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pointers = cgutils.unpack_tuple(builder, values[0])
            for address, kinds, packed in zip(
                pointers, signature.args[1], cgutils.unpack_tuple(builder, values[1]), strict=True
            ):
                kinds = tuple(kinds)
                function_type = context.call_conv.get_function_type(types.none, kinds)
                function = builder.inttoptr(address, function_type.as_pointer())
                parts = cgutils.unpack_tuple(builder, packed)
                status, _ = context.call_conv.call_function(builder, function, types.none, kinds, parts)
                with cgutils.if_unlikely(builder, status.is_error):
                    context.call_conv.return_status_propagate(builder, status)
            return context.get_dummy_value()

        return types.none(addresses, arguments), generate


@njit
def _repeat(times, addresses, arguments):
    for _ in range(times):
        _call_each(addresses, arguments)


def as_bound(call: Callable[[], None]) -> partial:
    """A loop with its arguments, as the loops of a CPU are bound."""
    if not isinstance(call, partial):
        raise TypeError(f"{call!r} is not a compiled loop bound for one core")
    return call


def chain(calls: Sequence[Callable[[], None]]) -> Callable[[int], None]:
    """A call that makes these calls in order, as often as its argument says. calls: compiled loops bound for one core.

    The loops are compiled at the first call.
    """
    bound = [as_bound(call) for call in calls]
    arguments = tuple(call.args for call in bound)
    addresses: tuple[Any, ...] = ()

    def repeat(times: int) -> None:
        nonlocal addresses
        if not addresses:
            addresses = tuple(address_of(call.func, call.args) for call in bound)
        _repeat(times, addresses, arguments)

    return repeat
