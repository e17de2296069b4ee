"""The end of a command's process.

Python and C++ take down at exit what they have built: every module, every operator that torch has registered. The
system frees all of it at once: the prompt is back 0.17 s earlier on a Neoverse-N1 core.
"""

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

# Profilers and checkers of native code are loaded by these variables, and write their results when C takes down.
_NATIVE_TOOLS = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
_OURS = ("__main__", "runpy", "marl.__main__", __name__)


def leave(code: int) -> NoReturn:
    """End this process with the exit code, after all that Python promises: threads, exit functions, flushed output.

    As usual if a tool watches the process from inside: a profiler, a debugger, a measure of coverage.
    """
    if os.name != "posix" or sys.flags.interactive or _is_watched():
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe, a closed stream
            stream.flush()
    if "torch" in sys.modules:
        import ctypes

        ctypes.CDLL(None).fflush(None)  # what C has printed, NCCL for one
    os._exit(code)


def _is_watched() -> bool:
    """Whether this program runs within another one, or with a tool of native code."""
    callers, frame = set(), sys._getframe()
    while frame is not None:
        callers.add(frame.f_globals.get("__name__"))
        frame = frame.f_back  # type: ignore[assignment]
    return not callers <= set(_OURS) or any(os.environ.get(name) for name in _NATIVE_TOOLS)
