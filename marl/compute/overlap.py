"""Work that overlaps with the caller's: on a stream of its own on a GPU, in a thread of its own on a CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import torch


class Overlap:
    """Runs pieces of work one after the other, beside the caller. If it is not enabled, in the caller's place.

    Until a piece is done keep alive every tensor that it shares with the caller. On a CPU each side has half of the
    process's threads (threads.use_threads). Two halves are faster than all threads on one small matrix product after
    the other, and much faster when something else runs on the machine: threads of one product wait for the slowest.
    """

    def __init__(self, device: torch.device, enabled: bool) -> None:
        on_gpu = device.type == "cuda"
        self._device = device
        self._stream = torch.cuda.Stream(device) if enabled and on_gpu else None
        self._worker = None
        if enabled and not on_gpu:
            self._worker = ThreadPoolExecutor(1, "overlap", _use_threads, (numba.get_num_threads(),))

    @property
    def splits(self) -> bool:
        """Whether work on a CPU is split into two halves that run at once."""
        return self._worker is not None

    @property
    def parts(self) -> int:
        """Into how many parts split_batch cuts a batch."""
        return 2 if self.splits else 1

    def run(self, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Begin a piece of work, after all that the caller has asked the device for; the returned call waits for it."""
        if self._worker is not None:
            return self._worker.submit(work, *arguments).result
        if self._stream is None:
            result = work(*arguments)
            return lambda: result
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            result = work(*arguments)
            done = self._stream.record_event()

        def wait() -> Any:
            torch.cuda.current_stream(self._device).wait_event(done)
            return result

        return wait

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
