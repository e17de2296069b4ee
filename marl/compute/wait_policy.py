"""What the idle threads of torch do on a machine with few cores: they sleep.

OpenMP's threads look for work for some milliseconds before they sleep. Where all cores have work, they take it from
Numba's threads and from the other half of an update: on two x86 cores PPO made 52,100 env steps/s like this, and 69,000
with threads that sleep (torch 2.11); on two Neoverse-N1 cores 47,900 and 50,600 (torch 2.13).
"""

import os

from marl.compute.machine import usable_cores

FEW_CORES = 2  # with more nothing was gained


def let_idle_threads_sleep() -> None:
    """Before torch is imported: its OpenMP library reads the variable then. A user's own choice stays."""
    if "OMP_WAIT_POLICY" not in os.environ and usable_cores() <= FEW_CORES:
        os.environ["OMP_WAIT_POLICY"] = "passive"
