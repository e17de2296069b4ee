"""Changes to torch's elastic launcher. All use of its private or replaced names is in this file.

Tried with torch 2.11 and 2.13; pyproject.toml allows no torch outside this range. Where a torch no longer has one of
the names, tests/marl/ranks/test_torch_elastic.py fails and says which. Four things differ from torch:

- The agent restarts ranks after a failure as torch's does, but not after a failure that would only come again.
- The rendezvous of several nodes has a time limit for calls to its store. torch waits without limit for the answer of a
  store on another node; a launcher that waits like this notices neither that its ranks have ended nor a signal.
- The launcher of rank 0 hosts the store of the process group, a new one for every start. torch keeps one store for all
  starts: after a restart over gloo, ranks find addresses of the earlier ranks in it. The other way of torch is a free
  port that the launcher chooses and rank 0 opens, seconds later: another process may have taken it.
- On one machine all stores listen on loopback alone.
"""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousInfo,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout
from torch.distributed.launcher import api

from arena import system
from marl.ranks.exits import EXIT_MISTAKE, EXIT_TOGETHER
from marl.ranks.network import is_loopback, wait_for_server
from marl.ranks.store import serve_on_loopback

RENDEZVOUS = "snakes"  # name of our rendezvous among torch's backends
LAST_CALL = 10.0  # seconds an elastic run waits for more nodes once it has enough; a later node restarts the ranks
# Exit codes of failures that a restart would only repeat; without sessions Ctrl-C ends the ranks, and is meant for all.
INTERRUPTED = () if system.HAS_SESSIONS else tuple(128 + number for number in system.STOP_SIGNALS)
FINAL = (EXIT_MISTAKE, EXIT_TOGETHER, *INTERRUPTED)
LOGGERS = ("torch.distributed.elastic", "torch.distributed.launcher")


class Agent(api.LocalElasticAgent):
    """One per node: starts and restarts the ranks of the node."""

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        if any(failure.exitcode in FINAL for failure in result.failures.values()):
            self._remaining_restarts = 0
        return result


class BoundedStore:
    """`get` and `compare_set` of a store. A call fails after `seconds`; all later calls then fail at once."""

    def __init__(self, store: dist.Store, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._lost = False

    def get(self, key: str) -> bytes:
        return self._call(self._store.get, key)

    def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
        return self._call(self._store.compare_set, key, expected, wanted)

    def _call(self, function: Callable[..., bytes], *arguments: str) -> bytes:
        if self._lost:
            raise RuntimeError("the connection to the store is lost")
        results: list[bytes] = []
        errors: list[Exception] = []

        def call() -> None:
            try:
                results.append(function(*arguments))
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="rendezvous", daemon=True)  # daemon: it may wait for ever
        thread.start()
        thread.join(self._seconds)
        if results:
            return results[0]
        self._lost = True  # a late answer would be taken for the answer to the next call
        raise RuntimeError(f"no answer within {self._seconds:g} s" if not errors else str(errors[0]))


class Backend(C10dRendezvousBackend):
    @property
    def name(self) -> str:
        return RENDEZVOUS


class Handler(DynamicRendezvousHandler):
    def next_rendezvous(self) -> RendezvousInfo:
        self._bootstrap_store_info, self._shared_tcp_store_server = None, None  # torch then opens a new store
        return super().next_rendezvous()

    def _create_tcp_store_server(self, master_addr: str, master_port: int) -> dist.TCPStore:
        if is_loopback(master_addr):
            return serve_on_loopback(master_addr, master_port)
        return super()._create_tcp_store_server(master_addr, master_port)

    def num_nodes_waiting(self) -> int:
        try:
            return super().num_nodes_waiting()
        except RendezvousConnectionError:
            return 0  # the ranks lose each other too; they end by themselves and name the lost rank


def use_agent() -> None:
    """Replace torch's agent for all launches of this process: torch's launcher has no parameter for it."""
    api.LocalElasticAgent = Agent  # type: ignore[misc]  # a class in place of its base class


def register_rendezvous() -> None:
    rendezvous_handler_registry.register(RENDEZVOUS, _create_handler)


def silence_loggers() -> None:
    # Not by level: torch sets a level on each of its loggers. They have no handlers, so their records end here.
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _create_handler(params: RendezvousParameters) -> Handler:
    seconds = params.get_as_int("read_timeout")
    if not params.get_as_bool("is_host"):
        _wait_for_host(params.endpoint, seconds)
    address, _, port = params.endpoint.rpartition(":")
    if params.get_as_bool("is_host") and is_loopback(address):
        store: dist.Store = serve_on_loopback(address, int(port))
    else:
        _, store = create_backend(params)
    return Handler.from_backend(
        params.run_id,
        store,
        Backend(BoundedStore(store, seconds), params.run_id),  # type: ignore[arg-type]  # has all that a backend calls
        params.min_nodes,
        params.max_nodes,
        params.local_addr,
        RendezvousTimeout(join=timedelta(seconds=seconds), last_call=timedelta(seconds=LAST_CALL)),
    )


def _wait_for_host(endpoint: str, seconds: float) -> None:
    address, _, port = endpoint.rpartition(":")
    try:
        wait_for_server(address, int(port), seconds, retry_unknown_host=True)
    except OSError as error:
        raise RendezvousConnectionError(f"nobody listens at {endpoint}") from error
