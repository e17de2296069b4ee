"""Work on a CPU that runs beside the caller's, in a thread of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import torch


class Overlap:
    """Runs pieces of work one after the other, beside the caller. If it is not enabled, in the caller's place.

    Each side has half of the process's threads (threads.use_threads). Two halves are faster than all threads on one
    small matrix product after the other, and much faster when something else runs on the machine: threads of one
    product wait for the slowest.
    """

    def __init__(self, enabled: bool) -> None:
        self._worker = ThreadPoolExecutor(1, "overlap", _use_threads, (numba.get_num_threads(),)) if enabled else None

    @property
    def splits(self) -> bool:
        """Whether work is split into two halves that run at once."""
        return self._worker is not None

    @property
    def parts(self) -> int:
        """Into how many parts split_batch cuts a batch."""
        return 2 if self.splits else 1

    def run(self, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Begin a piece of work; the returned call waits for it."""
        if self._worker is not None:
            return self._worker.submit(work, *arguments).result
        result = work(*arguments)
        return lambda: result

    def split_batch(self, work: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        """work(batch), for work that treats each row alone: half of the rows in the thread, if there is one."""
        if self._worker is None:
            return work(batch)
        half = len(batch) // 2
        second = self.run(work, batch[half:])
        return torch.cat((work(batch[:half]), second()))


def _use_threads(of_numba: int) -> None:
    """In a new thread, which would begin with all cores: numbers of threads belong to a thread."""
    numba.set_num_threads(of_numba)
    torch.set_num_threads(torch.get_num_threads())  # for OpenMP and BLAS in this thread, which compiled code calls too
