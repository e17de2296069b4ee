"""Generates loops from a function of one item: over all items in order, in parallel on a CPU, and as a CUDA kernel.

The loops are templates in which the function is a global name. Each function gets copies of the templates with itself
under that name. (Not a closure: Numba keeps no compiled code of closures over compiled functions.)
"""

from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
from numba import get_num_threads

from arena.jit import njit

# Measured: below this many matches waking the other cores costs more than they bring.
PARALLEL_FROM = 192
THREADS = 128  # of a CUDA block


def runs_parallel(matches: int) -> bool:
    """Whether a batch of this many matches is worth waking the other cores for, if Numba may use them."""
    return matches >= PARALLEL_FROM and get_num_threads() > 1


def specialise(template: Callable[..., Any], name: str, **names: Any) -> FunctionType:
    """A copy of a template in which these global names have these values."""
    copied = FunctionType(template.__code__, {**template.__globals__, **names}, template.__name__)
    copied.__qualname__ = f"{name}_{template.__name__}"  # Numba files compiled code under this name
    copied.__module__ = template.__module__
    return copied


def launch(kernel: Any, items: int, device: torch.device, *arguments: Any) -> None:
    """Start a kernel with one thread per item on torch's current stream, so that a CUDA graph can record it.

    Arguments are numbers, tensors, and (nested) tuples of them.
    """
    from arena.backends.numba_cuda import cuda

    if items == 0:
        return
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    kernel[(items + THREADS - 1) // THREADS, THREADS, stream](*converted(arguments, cuda.as_cuda_array))


def converted(value: Any, convert: Callable[[torch.Tensor], Any]) -> Any:
    """The value with all tensors in it converted; tuples stay what they are."""
    if isinstance(value, torch.Tensor):
        return convert(value)
    if isinstance(value, tuple):
        each = [converted(item, convert) for item in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return value


# --- loops over plain items -------------------------------------------------------------------------------------------


def item(i, *arguments):
    """Stands for the function of one item."""
    raise NotImplementedError


def serial(begin, end, arguments):
    for i in range(begin, end):
        item(i, *arguments)


def kernel(items, arguments):
    i = cuda.grid(1)  # noqa: F821 - put in when the copy for a GPU is made
    if i < items:
        item(i, *arguments)


class ItemLoop:
    """A compiled function `function(i, *arguments)` over items 0, 1, ..., on the device of its tensors.

    Arguments are numbers, tensors, and named tuples of them; the function sees arrays in place of tensors.
    """

    def __init__(self, function: Callable) -> None:
        self.function = function

    def bind(self, items: int, device: torch.device, *arguments: Any) -> Callable[[], None]:
        """A call of the loop. Tensors are read and written where they are at each call; numbers are fixed."""
        if device.type == "cuda":
            return partial(launch, self.cuda_kernel(), items, device, items, arguments)
        return self.bind_part(slice(0, items), *arguments)

    def bind_part(self, items: slice, *arguments: Any) -> partial:
        """The same on a CPU for some of the items."""
        return partial(self.cpu_loop(), items.start, items.stop, converted(arguments, torch.Tensor.numpy))

    @cache  # noqa: B019 - loops live as long as the program
    def cpu_loop(self) -> Any:
        """The loop for a CPU: loop(begin, end, arguments)."""
        return njit(specialise(serial, self.function.__name__, item=self.function), self.function)

    @cache  # noqa: B019
    def cuda_kernel(self) -> Any:
        """The kernel for a GPU: kernel(items, arguments), one thread per item."""
        from arena.backends.numba_cuda import cuda, cuda_kernel

        return cuda_kernel(specialise(kernel, self.function.__name__, item=self.function, cuda=cuda), self.function)


item_loop = cache(ItemLoop)
