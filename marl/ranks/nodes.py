"""How many ranks a launcher starts on this node, and the place of this node among the others."""

from collections.abc import Mapping
from typing import NamedTuple

from marl.cli.arguments import parse_whole_number
from marl.cli.invocation import train_with
from marl.errors import UserError


class Nodes(NamedTuple):
    """The nodes of a training, and the place of this node among them. The defaults are for one node."""

    nnodes: tuple[int, int] = (1, 1)  # fewest and most; different for an elastic run
    node_rank: int = 0
    master_addr: str | None = None
    master_port: int | None = None

    @property
    def most(self) -> int:
        return self.nnodes[1]


ONE_NODE = Nodes()
# Of ranks that sum gradients through shared memory, one per core. On 12 free cores of a 16-core x86 machine 12 made
# 184 k env steps/s with PPO and 137 k with DDPG, one process with two threads 55 k and 46 k.
# With more ranks a share of the batch costs less than what an update costs anyway. Up to 3 cores one process is used.
MOST_CPU_RANKS, FEWEST_CORES = 16, 4
# Over gloo an exchange takes longer than a share of the work. PPO's batches can be split over a few ranks, replay
# learners' cannot: on 16 x86 cores 8 ranks made 66 k and 14 k env steps/s, one process 95 k and 40 k.
MOST_GLOO_RANKS, CORES_PER_GLOO_RANK = 8, 2


def choose_cpu_ranks(cores: int, shares_memory: bool, splits_small: bool) -> int:
    """The number of ranks on this machine's CPU. splits_small: a batch is too small to be split over gloo."""
    if shares_memory:
        return min(MOST_CPU_RANKS, cores) if cores >= FEWEST_CORES else 1
    return 1 if splits_small else min(MOST_GLOO_RANKS, max(1, cores // CORES_PER_GLOO_RANK))


def choose_ranks_per_node(environment: Mapping[str, str], cpu_ranks: int, gpus: int, asked: int | None) -> int:
    """--num_gpus (asked), else NPROC, else one rank per GPU, else cpu_ranks."""
    if asked is not None:
        if asked < 1:
            raise UserError(f"--num_gpus {asked}: at least 1 is needed")
        if not gpus:
            raise UserError(
                f"--num_gpus {asked}: this machine has no GPU; use {train_with('NPROC', asked)} for {asked} CPU ranks"
            )
        if asked > gpus:
            raise UserError(f"--num_gpus {asked}: this machine has {gpus}; CUDA_VISIBLE_DEVICES may hide some")
        return asked
    if environment.get("NPROC"):
        return _read_number(environment, "NPROC", least=1)
    return gpus or cpu_ranks


def read_nodes(environment: Mapping[str, str]) -> Nodes:
    """NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT, checked. NNODES may be a range for an elastic run: 1:4."""
    fewest, most = _read_range(environment.get("NNODES") or "1")
    node_rank = _read_number(environment, "NODE_RANK", least=0) if environment.get("NODE_RANK") else None
    address = environment.get("MASTER_ADDR") or None
    port = _read_number(environment, "MASTER_PORT", least=1) if environment.get("MASTER_PORT") else None
    if port is not None and port >= 2**16:
        raise UserError(f"MASTER_PORT={port}: a port is a number from 1 to 65535")
    if most > 1:
        if address is None:
            raise UserError(f"NNODES={most} but MASTER_ADDR is not set: give the address of node 0, on every node")
        if node_rank is None:
            raise UserError(f"NNODES={most} but NODE_RANK is not set: number the nodes from 0 to {most - 1}")
    if (node_rank or 0) >= most:
        raise UserError(f"NODE_RANK={node_rank} but NNODES={most}: nodes are numbered from 0 to {most - 1}")
    return Nodes((fewest, most), node_rank or 0, address, port)


def _read_range(text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    try:
        fewest, most = int(low), int(high if colon else low)
    except ValueError:
        fewest, most = 0, 0
    if not 1 <= fewest <= most:
        raise UserError(f"NNODES={text}: a whole number of at least 1 is needed, or a range like 1:4")
    return fewest, most


def _read_number(environment: Mapping[str, str], name: str, least: int) -> int:
    number = parse_whole_number(environment[name].strip(), least)
    if number is None:
        raise UserError(f"{name}={environment[name]}: a whole number of at least {least} is needed")
    return number
