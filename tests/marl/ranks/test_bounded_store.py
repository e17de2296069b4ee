"""Calls to a store end even if the store does not answer."""

import threading

import pytest

from marl.ranks.bounded_store import BoundedStore


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
