"""What a GPU needs before the first kernel, done in threads while the program is still loading: 0.2 and 0.4 s.

Both are C code that leaves Python alone. A mistake is not reported here: whoever needs the result meets it again.
"""

import contextlib
import ctypes
from threading import Thread

CUDA = "libcuda.so.1"  # comes with the driver


def begin_gpu_start(device: str) -> None:
    """Begin. device: as `--device` names it. Not before processes are forked that use the GPU."""
    number = device.partition(":")[2]
    Thread(target=create_context, args=(int(number) if number.isdecimal() else 0,), daemon=True).start()
    with contextlib.suppress(ImportError):
        from triton.runtime.cache import triton_key  # imported here: two threads must not import it at the same time

        Thread(target=triton_key, daemon=True).start()  # a hash of all files of Triton; it keeps the result


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
