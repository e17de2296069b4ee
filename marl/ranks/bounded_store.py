"""Calls to a store of torch with a time limit."""

import threading
from collections.abc import Callable

from torch.distributed import Store


class BoundedStore:
    """`get` and `compare_set` of a store. A call fails after `seconds`; all later calls then fail at once."""

    def __init__(self, store: Store, seconds: float) -> None:
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
