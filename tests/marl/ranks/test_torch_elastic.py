"""The private names of torch that marl.ranks.torch_elastic uses or replaces still exist; calls to a store end even if
the store does not answer.

Whether they still do the same is shown by real launches: test_launch.py (restarts), test_two_hosts.py and
test_elastic.py (rendezvous).
"""

import importlib
import inspect
import threading
from collections.abc import Callable

import pytest
import torch

ELASTIC = "torch.distributed.elastic"
RENDEZVOUS = f"{ELASTIC}.rendezvous"
TRIED = "marl/ranks/torch_elastic.py was tried with torch 2.11 and 2.13: adapt it, or narrow pyproject's range"


def find(module: str, path: str) -> object:
    """The object `path` of a module of torch; a missing name fails the test with one line."""
    found: object | None = None
    try:
        found = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name, None)
    except ImportError:
        pass
    if found is None:
        pytest.fail(f"torch {torch.__version__} has no {module}.{path}; {TRIED}", pytrace=False)
    return found


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("torch.distributed.launcher.api", "LocalElasticAgent"),
        (f"{ELASTIC}.agent.server.api", "RunResult"),
        (f"{ELASTIC}.agent.server.api", "WorkerGroup"),
        (f"{ELASTIC}.agent.server.local_elastic_agent", "LocalElasticAgent._monitor_workers"),
        (RENDEZVOUS, "RendezvousConnectionError"),
        (RENDEZVOUS, "RendezvousParameters.get_as_bool"),
        (RENDEZVOUS, "RendezvousParameters.get_as_int"),
        (RENDEZVOUS, "rendezvous_handler_registry.register"),
        (f"{RENDEZVOUS}.c10d_rendezvous_backend", "C10dRendezvousBackend.name"),
        (f"{RENDEZVOUS}.c10d_rendezvous_backend", "create_backend"),
        (f"{RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler.num_nodes_waiting"),
        (f"{RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler._create_tcp_store_server"),
        (f"{RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler.from_backend"),
        (f"{RENDEZVOUS}.dynamic_rendezvous", "RendezvousTimeout"),
    ],
)
def test_torch_has_the_name(module: str, path: str) -> None:
    find(module, path)


@pytest.mark.parametrize(
    ("module", "function", "name"),
    [
        # Agent replaces the name in this module; the launcher must look it up there.
        ("torch.distributed.launcher.api", "launch_agent", "LocalElasticAgent"),
        # Agent overrides the one and sets the other.
        (f"{ELASTIC}.agent.server.api", "SimpleElasticAgent._invoke_run", "_monitor_workers"),
        (f"{ELASTIC}.agent.server.api", "SimpleElasticAgent._invoke_run", "_remaining_restarts"),
        # Handler sets both to None: torch then opens a new store.
        (f"{RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler.next_rendezvous", "_bootstrap_store_info"),
        (f"{RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler.next_rendezvous", "_shared_tcp_store_server"),
    ],
)
def test_torch_uses_the_name(module: str, function: str, name: str) -> None:
    used = inspect.unwrap(find(module, function)).__code__.co_names
    if name not in used:
        pytest.fail(f"torch {torch.__version__}: {module}.{function} does not use {name}; {TRIED}", pytrace=False)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (
            "DynamicRendezvousHandler.from_backend",
            ["run_id", "store", "backend", "min_nodes", "max_nodes", "local_addr", "timeout"],
        ),
        ("RendezvousTimeout", ["join", "last_call"]),
    ],
)
def test_torch_takes_the_arguments(path: str, names: list[str]) -> None:
    function: Callable[..., object] = find(f"{RENDEZVOUS}.dynamic_rendezvous", path)
    found = list(inspect.signature(function).parameters)
    if found[: len(names)] != names:
        pytest.fail(f"torch {torch.__version__}: {path} takes {found}, not {names} first; {TRIED}", pytrace=False)


def test_the_rendezvous_calls_only_those_methods_of_its_store_that_are_bounded() -> None:
    from marl.ranks.torch_elastic import Backend, BoundedStore

    class Store:
        def __init__(self) -> None:
            self.value = b""

        def get(self, key: str) -> bytes:
            return self.value

        def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
            if self.value == expected.encode():
                self.value = wanted.encode()
            return self.value

    backend = Backend(BoundedStore(Store(), 10.0), "run")
    assert backend.name == "snakes"
    assert backend.get_state() is None
    state, token, is_set = backend.set_state(b"first")
    assert (state, is_set) == (b"first", True)
    assert backend.set_state(b"second", token)[::2] == (b"second", True)
    assert backend.get_state()[0] == b"second"


class Unplugged:
    """A store that answers until its cable is cut."""

    def __init__(self) -> None:
        self.cut, self.healed, self.calls = False, threading.Event(), 0

    def get(self, key: str) -> bytes:
        self.calls += 1
        if self.cut:
            self.healed.wait(60)
        return key.encode()

    def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
        raise ValueError("no such key")


def test_calls_to_a_store_that_does_not_answer_end() -> None:
    from marl.ranks.torch_elastic import BoundedStore

    store = Unplugged()
    bounded = BoundedStore(store, 0.2)
    assert [bounded.get("a"), bounded.get("b")] == [b"a", b"b"]
    store.cut = True
    try:
        with pytest.raises(RuntimeError, match="no answer within"):
            bounded.get("a")
        with pytest.raises(RuntimeError, match="is lost"):
            bounded.get("a")
        assert store.calls == 3  # the last one was not asked
    finally:
        store.healed.set()
    with pytest.raises(RuntimeError, match="no such key"):
        BoundedStore(store, 10.0).compare_set("a", "", "b")
