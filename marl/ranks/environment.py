"""The environment variables that a launcher (torchrun or ours) sets for every rank. No other file reads them."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from marl.cli.arguments import parse_whole_number
from marl.cli.invocation import TRAIN
from marl.cli.wording import verb
from marl.errors import UserError

LAUNCHER = "SNAKES_LAUNCHER"  # process id of our launcher
REQUIRED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class RankEnvironment(NamedTuple):
    """Place of this process in its process group. local_rank and local_world count the ranks of this node."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    master_addr: str
    master_port: int


def is_rank() -> bool:
    """Whether a launcher has started this process."""
    return "RANK" in os.environ


def forget_group() -> None:
    """Make this process one without ranks."""
    for name in (*REQUIRED, "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)


def is_first_on_node() -> bool:
    """Whether this is the first rank of its node; also true for a process without ranks."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def ranks_on_this_node() -> int:
    """Number of ranks that share this machine; 1 for a process without ranks."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def announce_launcher() -> None:
    """For a launcher: its ranks shall know its process id."""
    os.environ[LAUNCHER] = str(os.getpid())


def launcher_pid() -> int | None:
    """Process id of our launcher; None under torchrun, which does not tell it."""
    return parse_whole_number(os.environ.get(LAUNCHER, ""))


def launch_id() -> str | None:
    """Id of the launch by torch's elastic agent, the same after a restart; None without an agent."""
    return os.environ.get("TORCHELASTIC_RUN_ID")


def agent_hosts_store() -> bool:
    """Whether torch's elastic agent hosts the store of the process group; otherwise rank 0 does."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def read_rank_environment(environment: Mapping[str, str] = os.environ) -> RankEnvironment | None:
    """All variables of a rank, checked; None for a process without ranks."""
    given = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in environment]
    if not given:
        return None
    missing = [name for name in REQUIRED if not environment.get(name)]
    if missing:
        raise UserError(
            f"{', '.join(given)} {verb(given, 'is', 'are')} set but {', '.join(missing)} "
            f"{verb(missing, 'is', 'are')} not: start ranks with torchrun or {TRAIN}, or unset "
            f"{verb(given, 'it', 'them')} for one process"
        )
    rank, world, local_rank, port = (
        _read_number(environment, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    if rank >= world:
        raise UserError(f"RANK={rank} but WORLD_SIZE={world}: ranks count from 0 to {world - 1}")
    if not 0 < port < 2**16:
        raise UserError(f"MASTER_PORT={port}: a port is a number from 1 to 65535")
    has_local_world = "LOCAL_WORLD_SIZE" in environment
    local_world = _read_number(environment, "LOCAL_WORLD_SIZE") if has_local_world else local_rank + 1
    return RankEnvironment(rank, world, local_rank, local_world, environment["MASTER_ADDR"], port)


def _read_number(environment: Mapping[str, str], name: str) -> int:
    number = parse_whole_number(environment[name].strip())
    if number is None:
        raise UserError(f"{name}={environment[name]!r} is not a whole number; torchrun and {TRAIN} set it right")
    return number
