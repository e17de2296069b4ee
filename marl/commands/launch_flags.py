"""The ranks that the flags of `train` ask for: how many, on which machines, and their start."""

import gc
import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from arena import system
from marl.cli.arguments import parse_whole_number
from marl.cli.invocation import VARIABLE, program
from marl.errors import UserError
from marl.training.resume_plan import ResumePlan

if TYPE_CHECKING:
    from marl.ranks.nodes import Nodes

# Name -> whether the flag takes a value.
LAUNCH_FLAGS = {
    "distributed": False, "num_gpus": True, "nnodes": True, "node_rank": True,
    "master_addr": True, "master_port": True, "max_restarts": True,
    "rank_logs": True,
}  # fmt: skip
# What a training imports when it needs it.
LOADED_LATE = ("marl.training.trainer", "marl.training.outputs", "marl.training.summary")
# Flags that stand for an environment variable.
VARIABLES = {
    "nnodes": "NNODES", "node_rank": "NODE_RANK", "master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT",
}  # fmt: skip


def asks_for_nodes(flags: Mapping[str, str]) -> bool:
    """Whether flags or environment ask for several machines."""
    return bool(flags) and flags.get("nnodes", os.environ.get("NNODES", "1")) != "1"


def choose_launch(flags: Mapping[str, str], plan: ResumePlan) -> tuple[int, "Nodes", int]:
    """What the flags and the environment ask for: ranks on this machine, machines, restarts."""
    import torch

    from marl.compute.machine import processor
    from marl.ranks.nodes import choose_cpu_ranks, choose_ranks_per_node, read_nodes

    variables = os.environ | {VARIABLES[name]: value for name, value in flags.items() if name in VARIABLES}
    num_gpus, max_restarts = (_whole_number(flags, name) for name in ("num_gpus", "max_restarts"))
    gpus = 0 if plan.config.device == "cpu" else torch.cuda.device_count()
    nodes = read_nodes(variables)
    config = plan.config
    # Sizes that are given are per rank: more ranks would make the run another one, and replay learners feel it.
    is_replay, sizes = config.learner_section != "ppo", getattr(config, config.learner_section)
    is_given = is_replay and sizes.batch_size is not None
    cpu_ranks = choose_cpu_ranks(
        processor()["cores"],
        shares_memory=system.SHARES_MEMORY and nodes.most == 1 and config.ddp.backend is None and not is_given,
        splits_small=is_replay and config.ddp.scaling == "strong",
    )
    ranks = choose_ranks_per_node(variables, cpu_ranks, gpus, num_gpus)
    return ranks, nodes, max_restarts or 0


def launch_ranks(flags: Mapping[str, str], plan: ResumePlan) -> int | None:
    """Start the ranks that the flags ask for and wait for them; returns the exit code.

    None if this process is to train: the flags ask for one rank without restarts, or it is a rank that was forked.
    """
    from marl.ranks.launch import launch, set_environment

    ranks, nodes, restarts = choose_launch(flags, plan)
    if ranks == 1 and nodes.nnodes == (1, 1) and not restarts:
        return None
    os.environ[VARIABLE] = program()
    if restarts or not _can_fork(plan, nodes):
        logs = ["--rank_logs", flags["rank_logs"]] if "rank_logs" in flags else []
        return launch([*plan.argv, *logs], ranks, nodes, max_restarts=restarts, timeout=plan.config.ddp.timeout)
    from marl.ranks.fork_launch import launch_forked

    set_environment(ranks, None)
    _load_training(plan)
    return launch_forked(ranks, plan.config.ddp.timeout)


def _can_fork(plan: ResumePlan, nodes: "Nodes") -> bool:
    """Whether the ranks can be forked from this process: CPU ranks of one machine that meet where they like.

    CUDA does not survive a fork, and neither do the system libraries of a Mac. Windows has none.
    """
    import torch

    is_cpu = plan.config.device == "cpu" or torch.cuda.device_count() == 0
    meets_anywhere = nodes.nnodes == (1, 1) and nodes.master_addr is None and nodes.master_port is None
    return is_cpu and meets_anywhere and system.FORKS_WHEN_LOADED


def _load_training(plan: ResumePlan) -> None:
    """Import what a training imports, for all ranks that are forked from this process. No thread may start here."""
    from marl import registry
    from marl.metrics.event_file import load_tensorboard
    from marl.ranks import shared_memory

    for module in LOADED_LATE:
        importlib.import_module(module)
    load_tensorboard()
    registry.load(registry.LEARNERS, plan.config.algo)
    shared_memory.load_kernels()  # Numba loads much of itself with the first function
    gc.collect()
    gc.freeze()  # collections in the ranks leave these objects alone: their memory stays shared


def _whole_number(flags: Mapping[str, str], name: str) -> int | None:
    if name not in flags:
        return None
    number = parse_whole_number(flags[name])
    if number is None:
        raise UserError(f"--{name} {flags[name]}: a whole number is needed")
    return number
