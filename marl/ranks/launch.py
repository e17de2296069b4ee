"""Starts the ranks of a training on this node, through torch's elastic launcher but without torchrun.

torchrun works too (docs/cluster.md shows its settings), but this launcher does more:

- A failure is one line that names the rank; the ranks' own output comes straight through. torchrun adds its traceback.
- Mistakes are found before any rank starts: a port in use, an address that is loopback.
- A user's mistake or a NaN loss is not restarted; torchrun repeats it --max-restarts times (torch_elastic.Agent).
- When the network to node 0 is cut, the launcher still notices signals and the end of its ranks; torchrun waits for the
  store without limit (torch_elastic.Handler).
- A stop signal, SLURM's USR1 included, leaves the ranks 60 s to save. torch's handler runs again at a second signal and
  leaves the ranks behind.
- Settings that torchrun guesses wrongly or leaves out: the host of the rendezvous, the own address, the network
  interface, threads per rank (torchrun: 1), a store of its own for every restart.
"""

import contextlib
import dataclasses
import errno
import math
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from arena import system
from marl.cli.wording import count
from marl.errors import UserError
from marl.ranks import environment
from marl.ranks.exits import EXIT_LOST_RANK, EXIT_MISTAKE, EXIT_TOGETHER, GO_ON
from marl.ranks.network import bind_error, interface_of, own_address
from marl.ranks.nodes import ONE_NODE, Nodes

PROGRAM = ("-m", "marl", "train")
DEFAULT_PORT = 29400  # of the rendezvous of several nodes without MASTER_PORT
SHUTDOWN_TIMEOUT = 60  # seconds, at least, that the ranks have to save and end after a signal; then they are killed
STOP_SIGNALS = (
    *system.STOP_SIGNALS,
    *(getattr(signal, name) for name in ("SIGHUP", "SIGQUIT", "SIGUSR1") if hasattr(signal, name)),
)


def launch(
    argv: Sequence[str],
    ranks: int,
    nodes: Nodes = ONE_NODE,
    *,
    timeout: float,
    max_restarts: int = 0,
    program: Sequence[str] = PROGRAM,
) -> int:
    """Run the program with these arguments in `ranks` processes on this node; returns the exit code of the whole.

    timeout: seconds to wait for the other nodes, and for ranks that save after a signal.
    """
    rendezvous = _rendezvous_settings(nodes, timeout)
    set_environment(ranks, interface_of(rendezvous["local_addr"]) if nodes.most > 1 else None)

    # Not before: torch and its libraries read the environment when they are loaded.
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousTimeoutError

    from marl.ranks.torch_elastic import RENDEZVOUS

    if nodes.most > 1:
        interface = os.environ.get("GLOO_SOCKET_IFNAME")
        through = f" through network interface {interface}" if interface else ""
        place = f"{rendezvous['rdzv_endpoint']}{through}"
        line = f"{nodes.most} nodes meet at {place}"
        if nodes.node_rank:
            line = f"node {nodes.node_rank} with {count(ranks, 'rank')} joins {nodes.most} nodes at {place}"
        print(f"snakes: {line}", file=sys.stderr, flush=True)
    settings = {
        "min_nodes": nodes.nnodes[0],
        "max_nodes": nodes.most,
        "nproc_per_node": ranks,
        "max_restarts": max_restarts,
        "monitor_interval": 0.1,
        "rdzv_backend": RENDEZVOUS,
        "shutdown_timeout": math.ceil(max(SHUTDOWN_TIMEOUT, timeout)),
        "signals_to_handle": "",  # the handlers of stop_on_signal stay in place of torch's
        **rendezvous,
    }
    try:
        return _run(settings, ("-u", *program, *argv))
    except (RendezvousConnectionError, RendezvousTimeoutError) as error:
        raise UserError(
            f"the {nodes.most} nodes did not meet at {rendezvous['rdzv_endpoint']} within {timeout:g} s: is node 0 "
            "running there, the port open, and NNODES the same on every node?"
        ) from error


# --- settings


def _rendezvous_settings(nodes: Nodes, timeout: float) -> dict[str, Any]:
    """The fields of torch's LaunchConfig that say where the nodes meet."""
    (fewest, most), node_rank, master_addr, master_port = nodes
    seconds = max(1, int(timeout))
    limits = {"timeout": seconds, "join_timeout": seconds, "read_timeout": seconds}
    if most == 1:
        if master_port is not None:
            _check_free(master_addr or "127.0.0.1", master_port)
        return {
            "run_id": uuid.uuid4().hex,
            "rdzv_endpoint": f"127.0.0.1:{master_port or 0}",  # 0: torch takes a free port
            "rdzv_configs": {**limits, "is_host": True},
            "local_addr": "127.0.0.1",
        }
    if master_addr is None:
        raise UserError(f"{most} nodes need the address of node 0: --master_addr or MASTER_ADDR")
    own = own_address(master_addr)
    _check_not_loopback(master_addr, own, os.environ)
    port = master_port or DEFAULT_PORT
    if node_rank == 0:
        _check_free(master_addr, port)
    return {
        "run_id": f"snakes-{port}-{fewest}-{most}",  # nodes with different NNODES do not meet
        "rdzv_endpoint": f"{master_addr}:{port}",
        # is_host: torch guesses it by name, wrongly where the name is an alias or resolves to loopback.
        "rdzv_configs": {**limits, "is_host": node_rank == 0},
        "local_addr": own,
    }


def _check_free(address: str, port: int) -> None:
    error = bind_error(port)
    if error is not None:
        trouble = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise UserError(f"port {port} on {address} {trouble}; choose another with --master_port") from error


def _check_not_loopback(master_addr: str, own: str | None, environment: Mapping[str, str]) -> None:
    """own: this machine's address on the route to MASTER_ADDR; the other nodes connect to it."""
    if own is not None and own.startswith("127.") and environment.get("GLOO_SOCKET_IFNAME") != "lo":
        raise UserError(
            f"MASTER_ADDR={master_addr} is loopback here, where no other host can come to: give the address of node 0 "
            "that the other hosts use, on every node (or set GLOO_SOCKET_IFNAME=lo, if all nodes are on this machine)"
        )


def set_environment(ranks: int, interface: str | None) -> None:
    """Variables that the ranks inherit; variables set by the user stay. interface: towards the other nodes."""
    from marl.compute.machine import usable_cores
    from marl.compute.thread_variables import limit_threads_of_children

    environment.announce_launcher()
    limit_threads_of_children(max(1, usable_cores() // ranks))
    # torch warns of a lost connection with its C++ stack; we name the rank.
    defaults = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
    if interface:
        # Where a host's name resolves to loopback, gloo and NCCL would give the other nodes a loopback address.
        defaults |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


# --- run


def _run(settings: Mapping[str, Any], command: Sequence[str]) -> int:
    """Start the ranks with torch's elastic launcher, wait for their end, report a failure; returns the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from marl.ranks import torch_elastic

    torch_elastic.use_agent()
    torch_elastic.register_rendezvous()
    torch_elastic.silence_loggers()
    known = {field.name for field in dataclasses.fields(LaunchConfig)}  # not every torch has all of them
    stopped: list[int] = []
    try:
        config = LaunchConfig(
            **{name: value for name, value in settings.items() if name in known},
            # No error files: ranks write none, and torch never removes the folder that it makes for them.
            logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
        )
        with stop_on_signal(SignalException) as stopped:
            elastic_launch(config, sys.executable)(*command)
        return 0
    except ChildFailedError as error:
        return _report_stop(stopped[0]) if stopped else _report_failures(error.failures)
    except SignalException as error:
        return _report_stop(stopped[0] if stopped else int(error.sigval))


@contextlib.contextmanager
def stop_on_signal(exception: Callable[[str, signal.Signals], Exception]) -> Iterator[list[int]]:
    """Raise an exception at the first stop signal, on which the launcher ends the ranks. Later signals are ignored.

    exception: makes it from a text and SIGTERM, the signal that torch's launcher then sends. The list gets the numbers
    of the signals. The ranks have sessions of their own: Ctrl-C reaches this process only. Without sessions it reaches
    the ranks as well, which save and end: the launcher waits for that, and nothing is raised.
    """
    stopped: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        if len(stopped) == 1 and system.HAS_SESSIONS:
            raise exception(f"signal {number}", signal.SIGTERM)

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- report


def _report_stop(number: int) -> int:
    print(f"snakes: stopped by {signal_name(number)}", file=sys.stderr)
    return 128 + number


def _report_failures(failures: Mapping[int, Any]) -> int:
    """Print in one line how the first rank failed; returns the exit code. failures: torch's ProcessFailure by rank."""

    def order(rank: int) -> tuple[float, bool]:
        # In the same second: a rank that was ended, or that lost another rank, is not the cause.
        failure = failures[rank]
        return failure.timestamp, failure.exitcode in (-signal.SIGTERM, EXIT_LOST_RANK)

    rank = min(failures, key=order)
    return report_failure(rank, failures[rank].exitcode)


def report_failure(rank: int, code: int) -> int:
    """Print in one line how a rank failed, unless it has done so itself; returns the exit code of the whole."""
    if code in (EXIT_MISTAKE, EXIT_LOST_RANK, EXIT_TOGETHER):  # the rank has printed the reason itself
        return 1 if code == EXIT_TOGETHER else code
    if code < 0:
        how = f"was killed by {signal_name(-code)}"
        hint = " (out of memory?)" if -code == system.SIGKILL else ""
        print(f"snakes: rank {rank} {how}{hint}; {GO_ON}", file=sys.stderr)
        return 128 - code
    print(f"snakes: rank {rank} failed with exit code {code}; its own message is above", file=sys.stderr)
    return code


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
