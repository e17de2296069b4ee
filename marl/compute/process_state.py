"""What belongs to the whole process and a training changes: given back when it ends, also by an error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch
from numba.np.ufunc import parallel

from marl.compute import onednn


@contextmanager
def process_state_restored() -> Iterator[None]:
    """After it, threads, oneDNN's switch, torch's random state and environment variables are as before.

    So that the next training of the process is as if it were the first: threads may round differently.
    """
    # Numba's threads are not started here: processes may be forked from this one before anything uses them.
    of_numba = numba.get_num_threads() if parallel._is_initialized else numba.config.NUMBA_NUM_THREADS
    of_torch = torch.get_num_threads()
    enabled, random, environment = onednn.mkldnn.enabled, torch.get_rng_state(), dict(os.environ)
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        numba.set_num_threads(of_numba)  # before torch's: see use_threads
        torch.set_num_threads(of_torch)
        onednn.mkldnn.enabled = enabled
        torch.set_rng_state(random)
        torch.cuda.set_rng_state_all(on_gpus)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
