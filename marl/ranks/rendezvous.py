"""Where the launchers of several nodes meet: torch's c10d rendezvous, with calls that end when the way there is cut.

torch waits without limit for the answer of a store on another node. A launcher that does so notices neither that its
ranks have ended nor a signal.
"""

import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import Store
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout

NAME = "snakes"  # among torch's backends of a rendezvous
LAST_CALL = 10.0  # seconds that an elastic run waits for more nodes once it has enough; who comes later restarts it


def register() -> None:
    rendezvous_handler_registry.register(NAME, _create)


class BoundedStore:
    """A store's calls as the rendezvous needs them; an error after so many seconds, and from then on at once."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._lost = False

    def get(self, key: str) -> bytes:
        return self._call(self._store.get, key)

    def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
        return self._call(self._store.compare_set, key, expected, wanted)

    def _call(self, act: Callable[..., bytes], *words: str) -> bytes:
        if self._lost:
            raise RuntimeError("the connection to the store is lost")
        answers: list[bytes] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(act(*words))
            except Exception as error:
                errors.append(error)

        asking = threading.Thread(target=ask, name="rendezvous", daemon=True)  # daemon: it may wait for ever
        asking.start()
        asking.join(self._seconds)
        if answers:
            return answers[0]
        self._lost = True  # a late answer would be taken for that of the next call
        raise RuntimeError(f"no answer within {self._seconds:g} s" if not errors else str(errors[0]))


class _Backend(C10dRendezvousBackend):
    @property
    def name(self) -> str:
        return NAME


class _Handler(DynamicRendezvousHandler):
    def num_nodes_waiting(self) -> int:
        try:
            return super().num_nodes_waiting()
        except RendezvousConnectionError:
            return 0  # the ranks lose each other too; they end by themselves and can say which one is lost


def _create(params: RendezvousParameters) -> _Handler:
    seconds = params.get_as_int("read_timeout")
    if not params.get_as_bool("is_host"):
        _await(params.endpoint, seconds)
    _, store = create_backend(params)
    return _Handler.from_backend(
        params.run_id,
        store,
        _Backend(BoundedStore(store, seconds), params.run_id),
        params.min_nodes,
        params.max_nodes,
        params.local_addr,
        RendezvousTimeout(join=timedelta(seconds=seconds), last_call=timedelta(seconds=LAST_CALL)),
    )


def _await(endpoint: str, seconds: float) -> None:
    """Wait with plain sockets until somebody listens there: torch prints its C++ stack when nobody does."""
    address, _, port = endpoint.rpartition(":")
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((address, int(port)), timeout=min(5.0, seconds)).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise RendezvousConnectionError(f"nobody listens at {endpoint}") from error
            time.sleep(0.1)
