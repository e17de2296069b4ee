"""Environment variables that torch, OpenMP and Numba read when they are loaded: the threads, and what idle ones do.

Each library has limits of its own. Numba knows neither OMP_NUM_THREADS nor the CPU time that a container may use, torch
does not know the latter. Here the number that the user, a scheduler or a container gives is the number of all of them.
"""

import os

from numba.core import config
from numba.np.ufunc import parallel

from marl.compute.machine import cpu_quota, usable_cores

THREADS, NUMBA_THREADS, IDLE = "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_WAIT_POLICY"
# Set beside our own OMP_NUM_THREADS: an upper limit, and not the user's choice.
THREADS_ARE_A_LIMIT = "SNAKES_THREADS_ARE_A_LIMIT"
# OpenMP's threads look for work for some milliseconds before they sleep. Where all cores have work, they take it from
# Numba's threads and from the other half of an update: on two x86 cores PPO made 52,100 env steps/s like this, and
# 69,000 with threads that sleep (torch 2.11); on two Neoverse-N1 cores 47,900 and 50,600 (torch 2.13).
FEW_CORES = 2  # with more nothing was gained


def set_thread_variables() -> None:
    """Before torch is imported, and before Numba starts its threads. A user's own choice stays."""
    if usable_cores() <= FEW_CORES:
        os.environ.setdefault(IDLE, "passive")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if parallel._is_initialized:  # a program around this one uses Numba's threads already
        return
    if not os.environ.get(THREADS) and cpu_quota() < cpus:
        limit_threads_of_children(max(1, int(cpu_quota())))
    first = os.environ.get(THREADS, "").partition(",")[0]  # a list is for nested loops
    if first.isdecimal() and int(first) > 0:
        os.environ.setdefault(NUMBA_THREADS, str(min(int(first), cpus)))
        _read_by_numba()


def _read_by_numba() -> None:
    """Numba is loaded, but has started no thread: it reads its variables again only when it compiles something."""
    config.reload_config()
    parallel.NUM_THREADS = config.NUMBA_NUM_THREADS


def limit_threads_of_children(number: int) -> None:
    """For processes that are started, and libraries that are loaded, from now on: at most this many, unless the user
    has fixed the number."""
    if user_fixes_threads():
        return
    os.environ[THREADS_ARE_A_LIMIT] = "1"
    os.environ[THREADS] = os.environ[NUMBA_THREADS] = str(number)


def user_fixes_threads() -> bool:
    """Whether the user (or torchrun) has fixed the number of threads."""
    return bool(os.environ.get(THREADS)) and THREADS_ARE_A_LIMIT not in os.environ
