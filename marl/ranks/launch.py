"""Starts the ranks of a training on this node, through torch's own elastic launcher but without torchrun.

Failures are told in one line; what the ranks print comes straight through.
"""

import contextlib
import dataclasses
import errno
import logging
import os
import signal
import socket
import struct
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from marl.errors import UserError

DEFAULT_PORT = 29400  # of a rendezvous of several nodes, when MASTER_PORT says nothing
STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1")


class Nodes(NamedTuple):
    """Where this node stands among the others; in the order in which `launch` takes it."""

    nnodes: tuple[int, int]  # fewest and most, equal unless elastic
    node_rank: int
    master_addr: str | None
    master_port: int | None


# --- how many ranks, which nodes ------------------------------------------------------------------------------------


def ranks_here(environment: Mapping[str, str], cores: int, gpus: int, asked: int | None) -> int:
    """How many ranks to start on this node: --num_gpus, else NPROC, else one per GPU, else one per two cores."""
    if asked is not None:
        if asked < 1:
            raise UserError(f"--num_gpus {asked}: at least 1 is needed")
        if not gpus:
            raise UserError(
                f"--num_gpus {asked}: this machine has no GPU; use NPROC={asked} ./train_ddp.sh for {asked} CPU ranks"
            )
        if asked > gpus:
            raise UserError(f"--num_gpus {asked}: this machine has {gpus}; CUDA_VISIBLE_DEVICES may hide some")
        return asked
    if environment.get("NPROC"):
        return _number(environment, "NPROC", least=1)
    return gpus or max(1, cores // 2)


def nodes_from(environment: Mapping[str, str]) -> Nodes:
    """NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT, checked. NNODES may be a range for an elastic run: 1:4."""
    fewest, most = _span(environment.get("NNODES") or "1")
    node_rank = _number(environment, "NODE_RANK", least=0) if environment.get("NODE_RANK") else None
    address = environment.get("MASTER_ADDR") or None
    port = _number(environment, "MASTER_PORT", least=1) if environment.get("MASTER_PORT") else None
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


def _span(text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    try:
        fewest, most = int(low), int(high if colon else low)
    except ValueError:
        fewest, most = 0, 0
    if not 1 <= fewest <= most:
        raise UserError(f"NNODES={text}: a whole number of at least 1 is needed, or a range like 1:4")
    return fewest, most


def _number(environment: Mapping[str, str], name: str, least: int) -> int:
    text = environment[name]
    if not text.strip().isdecimal() or int(text) < least:
        raise UserError(f"{name}={text}: a whole number of at least {least} is needed")
    return int(text)


# --- start them -----------------------------------------------------------------------------------------------------


def launch(
    words: Sequence[str],
    ranks: int,
    nodes: int | tuple[int, int] = 1,
    node_rank: int = 0,
    master_addr: str | None = None,
    master_port: int | None = None,
    max_restarts: int = 0,
    timeout: float = 600.0,
    shutdown_timeout: int = 60,
    program: Sequence[str] = ("-m", "marl", "train"),
) -> int:
    """Run the program in `ranks` processes on this node and return the exit code for the whole.

    timeout: seconds to wait for the other nodes. shutdown_timeout: seconds the ranks have to save and end after a
    signal to this process; then they are killed.
    """
    fewest, most = (nodes, nodes) if isinstance(nodes, int) else nodes
    where = _rendezvous((fewest, most), node_rank, master_addr, master_port, timeout)
    _environment(ranks, _interface(where["local_addr"]) if most > 1 else None)

    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousTimeoutError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from marl.ranks import agent

    agent.register()
    if most > 1:
        from marl.ranks import rendezvous

        rendezvous.register()
        if node_rank == 0:
            interface = os.environ.get("GLOO_SOCKET_IFNAME")
            through = f" through network interface {interface}" if interface else ""
            print(f"snakes: {most} nodes meet at {where['rdzv_endpoint']}{through}", file=sys.stderr, flush=True)
    _silence()
    settings = {
        "min_nodes": fewest,
        "max_nodes": most,
        "nproc_per_node": ranks,
        "max_restarts": max_restarts,
        "monitor_interval": 0.1,
        "rdzv_backend": rendezvous.NAME if most > 1 else "c10d",
        "shutdown_timeout": shutdown_timeout,
        "signals_to_handle": "",  # ours stay: torch's would run again at a second signal and leave the ranks behind
        **where,
    }
    known = {field.name for field in dataclasses.fields(LaunchConfig)}  # not every torch has all of them
    try:
        # torch keeps error files per start and never removes them.
        with tempfile.TemporaryDirectory(prefix="snakes-ranks-", ignore_cleanup_errors=True) as folder:
            config = LaunchConfig(
                **{name: value for name, value in settings.items() if name in known},
                logs_specs=DefaultLogsSpecs(log_dir=folder),
            )
            with _stopping(SignalException) as stopped:
                elastic_launch(config, sys.executable)("-u", *program, *words)
        return 0
    except ChildFailedError as error:
        return _tell(error.failures)
    except SignalException as error:
        number = stopped[0] if stopped else int(error.sigval)
        print(f"snakes: stopped by {signal.Signals(number).name}", file=sys.stderr)
        return 128 + number
    except (RendezvousConnectionError, RendezvousTimeoutError) as error:
        raise UserError(
            f"the {most} nodes did not meet at {where['rdzv_endpoint']} within {timeout:g} s: is node 0 running there, "
            "the port open, and NNODES the same on every node?"
        ) from error


def _environment(ranks: int, interface: str | None) -> None:
    """What the ranks inherit; what the user has set stays. interface: the one to the other nodes."""
    from marl.machine import processor

    threads = str(max(1, processor()["cores"] // ranks))
    wanted = {
        # With a shared store a restart over gloo finds addresses of the ranks before it, and often fails.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # torch warns of a lost connection with its C++ stack; we name the rank
    }
    if interface:
        # Where a host's name resolves to loopback, gloo and NCCL would tell the other nodes to connect there.
        wanted |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def _rendezvous(
    nodes: tuple[int, int], node_rank: int, master_addr: str | None, master_port: int | None, timeout: float
) -> dict[str, Any]:
    """The part of LaunchConfig that says where the nodes meet."""
    fewest, most = nodes
    if most == 1:
        if master_port is not None:
            _check_free(master_addr or "127.0.0.1", master_port)
        return {
            "run_id": uuid.uuid4().hex,
            "rdzv_endpoint": f"127.0.0.1:{master_port or 0}",  # 0: torch takes a free one
            "rdzv_configs": {"timeout": int(timeout), "is_host": True},
            "local_addr": "127.0.0.1",
        }
    if master_addr is None:
        raise UserError(f"{most} nodes need the address of node 0: --master_addr or MASTER_ADDR")
    own = _own_address(master_addr)
    _check_not_loopback(master_addr, own, os.environ)
    port = master_port or DEFAULT_PORT
    if node_rank == 0:
        _check_free(master_addr, port)
    seconds = max(1, int(timeout))
    return {
        "run_id": f"snakes-{port}-{fewest}-{most}",  # nodes with different NNODES do not meet
        "rdzv_endpoint": f"{master_addr}:{port}",
        # is_host: torch guesses it by name, wrongly where the name is an alias or resolves to loopback.
        "rdzv_configs": {
            "timeout": seconds,
            "join_timeout": seconds,
            "read_timeout": seconds,
            "is_host": node_rank == 0,
        },
        "local_addr": own,
    }


def _check_not_loopback(master_addr: str, own: str | None, environment: Mapping[str, str]) -> None:
    """own: this machine's address on the way to MASTER_ADDR, which is what the other nodes are told."""
    if own is not None and own.startswith("127.") and environment.get("GLOO_SOCKET_IFNAME") != "lo":
        raise UserError(
            f"MASTER_ADDR={master_addr} is loopback here, where no other host can come to: give the address of node 0 "
            "that the other hosts use, on every node (or set GLOO_SOCKET_IFNAME=lo, if all nodes are on this machine)"
        )


def _check_free(address: str, port: int) -> None:
    with socket.socket() as probe:
        if os.name == "posix":  # as torch does: a port whose last user has just ended is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            trouble = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise UserError(f"port {port} on {address} {trouble}; choose another with --master_port") from error


def _own_address(other: str) -> str | None:
    """This machine's address on the way to the other one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))  # a datagram socket: picks the route, sends nothing
            return probe.getsockname()[0]
    except OSError:
        return None


def _interface(address: str | None) -> str | None:
    """The name of the network interface that has this address; Linux only."""
    if address is None or not sys.platform.startswith("linux"):
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                request = struct.pack("256s", name.encode()[:15])
                reply = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
                if socket.inet_ntoa(reply[20:24]) == address:
                    return name
    return None


def _silence() -> None:
    # Not by level: torch sets one on each of its loggers. They have no handlers of their own, so it ends here.
    for name in ("torch.distributed.elastic", "torch.distributed.launcher"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


@contextlib.contextmanager
def _stopping(exception: type[Exception]) -> Iterator[list[int]]:
    """Turns the first signal to stop into torch's exception for it, which ends the ranks with TERM; later ones wait.

    The ranks have sessions of their own: Ctrl-C reaches this process only.
    """
    stopped: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        if len(stopped) == 1:
            raise exception(f"signal {number}", signal.SIGTERM)

    numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(failures: Mapping[int, Any]) -> int:
    """One line on how the first rank failed; returns the exit code. `failures` is torch's, by rank."""
    from marl.ranks.agent import EXIT_MISTAKE
    from marl.ranks.distributed import EXIT_TOGETHER
    from marl.ranks.roll_call import EXIT_LOST_RANK

    def order(rank: int) -> tuple[float, bool]:
        # In the same second: a rank that was ended, or that lost another one, is not the cause.
        failure = failures[rank]
        return failure.timestamp, failure.exitcode in (-signal.SIGTERM, EXIT_LOST_RANK)

    rank = min(failures, key=order)
    code = failures[rank].exitcode
    if code in (EXIT_MISTAKE, EXIT_LOST_RANK, EXIT_TOGETHER):  # the rank has told it itself
        return 1 if code == EXIT_TOGETHER else code
    if code < 0:
        try:
            how = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was killed by signal {-code}"
        hint = " (out of memory?)" if -code == getattr(signal, "SIGKILL", None) else ""
        print(f"snakes: rank {rank} {how}{hint}; go on with --resume and the run's folder", file=sys.stderr)
        return 128 - code
    print(f"snakes: rank {rank} failed with exit code {code}; its own message is above", file=sys.stderr)
    return code
