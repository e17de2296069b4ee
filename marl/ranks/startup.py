"""Start of a rank: join the process group that the environment variables describe."""

import sys

import torch
import torch.distributed as dist

from marl.errors import UserError
from marl.ranks.environment import read_rank_environment
from marl.ranks.network import stay_on_this_machine
from marl.ranks.placement import place
from marl.ranks.process_group import Ranks, Solo
from marl.ranks.store import RendezvousStore


def start(backend: str | None, timeout: float, device: str = "auto") -> Solo | Ranks:
    """Join the process group of this rank; without variables of a launcher, Solo.

    backend: None chooses NCCL for GPUs on Linux, else gloo, with shared memory for sums of CPU ranks on one machine.
    timeout: seconds to wait for the other ranks, at the start and in every collective.
    """
    found = read_rank_environment()
    gpus = torch.cuda.device_count()
    if found is None:
        return Solo(place(None, device, 0, 1, gpus)[1])
    share_memory = backend is None
    backend, chosen = place(backend, device, found.local_rank, found.local_world, gpus)
    if backend == "nccl" and not dist.is_nccl_available():
        raise UserError("this torch has no NCCL; use --backend gloo")
    if sys.platform == "darwin" and found.rank == 0:
        print("snakes: warning: on one Mac several ranks share one device and are not faster", file=sys.stderr)
    if found.local_world == found.world:
        stay_on_this_machine()
    rendezvous = RendezvousStore(found.master_addr, found.master_port, found.rank, found.world, timeout)
    return Ranks(found.rank, found.world, backend, chosen, rendezvous, share_memory)
