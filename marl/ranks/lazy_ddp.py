"""DistributedDataParallel made at the first use.

torch's DistributedDataParallel imports torch._dynamo: 1.5 s on two Neoverse-N1 cores, 4.4 s on an x86 server. Learners
whose passes are compiled sum their gradients themselves and never call it.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn


class LazyDdp:
    """Stands for a module in DistributedDataParallel. The first call or `no_sync` makes it: a collective."""

    def __init__(self, module: nn.Module, make: Callable[[], nn.Module]) -> None:
        self._module, self._make = module, make
        self._made: Any = None
        self._is_alone = False

    def __call__(self, *arguments: Any) -> Any:
        return self._module(*arguments) if self._is_alone else self._ddp()(*arguments)

    def no_sync(self) -> contextlib.AbstractContextManager:
        return self._ddp().no_sync()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, gradients are those of this rank: nothing is made and nothing exchanged."""
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False

    def _ddp(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made
