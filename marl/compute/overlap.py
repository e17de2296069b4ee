"""Work that runs beside the rest: on a stream of its own on a GPU, in a thread of its own on a CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch


class Branch:
    """Does one piece of work after the other, beside the caller. Not enabled, everything is done in its place.

    Until a piece is done keep alive every tensor that it shares with the caller.
    """

    def __init__(self, device: torch.device, enabled: bool) -> None:
        on_gpu = device.type == "cuda"
        self._device = device
        self._stream = torch.cuda.Stream(device) if enabled and on_gpu else None
        self._worker = ThreadPoolExecutor(1, "branch") if enabled and not on_gpu and _halve_threads() else None

    @property
    def halves(self) -> bool:
        """Whether work on a CPU is done in two halves at once."""
        return self._worker is not None

    def run(self, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Begin with a piece of work, on what the caller has asked for so far; the answer waits for its result."""
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

    def in_halves(self, work: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        """work(rows), where each row is for itself: half of them here, half in the thread if there is one."""
        if self._worker is None:
            return work(rows)
        half = len(rows) // 2
        second = self.run(work, rows[half:])
        return torch.cat((work(rows[:half]), second()))


@cache
def _halve_threads() -> bool:
    """Give each side half of torch's threads, once; whether there are two halves.

    Two halves are faster than all threads on one small matrix product after the other, and much faster when something
    else runs on the machine: threads of one product wait for the slowest of them.
    """
    threads = torch.get_num_threads()
    if threads > 1:
        torch.set_num_threads(threads // 2)
    return threads > 1
