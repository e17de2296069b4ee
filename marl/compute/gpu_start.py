"""What a GPU needs before the first kernel, done in threads while the program is still loading: 0.2 and 0.4 s.

Both run outside Python's lock, nearly all of the time. A mistake is not reported here: whoever needs the result meets
it again.
"""

import contextlib
import ctypes
from collections.abc import Callable
from threading import Thread

CUDA = "libcuda.so.1"  # comes with the driver


def begin_gpu_start(device: str) -> None:
    """Begin. device: as `--device` names it. Not before processes are forked that use the GPU."""
    number = device.partition(":")[2]
    Thread(target=create_context, args=(int(number) if number.isdecimal() else 0,), daemon=True).start()
    with contextlib.suppress(Exception):
        from triton.runtime.cache import triton_key  # imported here: two threads must not import it at the same time

        Thread(target=hash_triton, args=(triton_key,), daemon=True).start()


def hash_triton(triton_key: Callable[[], str]) -> None:
    """Triton names compiled kernels by a hash of all of its own files, and keeps this hash."""
    with contextlib.suppress(Exception):
        triton_key()


def create_context(number: int) -> bool:
    """Create the context of a GPU that torch and Numba will use; whether there is one now."""
    try:
        driver = ctypes.CDLL(CUDA)
    except OSError:
        return False
    device, context = ctypes.c_int(), ctypes.c_void_p()
    return not (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    )
