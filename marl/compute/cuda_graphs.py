"""Work on a GPU, recorded once and replayed: a cycle of hundreds of small kernels then costs one launch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Before it is recorded, work must have run: kernels are compiled, optimiser states allocated.
WARM_UPS = 3
DDP_WARM_UPS = 11  # backwards that DDP must have seen


@contextmanager
def beside_default(device: torch.device) -> Iterator[None]:
    """On a GPU, a stream of its own: what is tied to the default one for good, like DDP's hooks, can't be recorded."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


class Captured:
    """A function without arguments whose work can be replayed: as it is at first, as a graph from then on."""

    def __init__(
        self, function: Callable[[], None], device: torch.device, enabled: bool, warm_ups: int = WARM_UPS
    ) -> None:
        self._function, self._device, self._warm_ups = function, device, warm_ups
        self._enabled = enabled and device.type == "cuda"
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif not self._enabled:
            self._function()
        elif self._calls < self._warm_ups:
            self._calls += 1
            with beside_default(self._device):  # as recording will
                self._function()
        else:
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize(self._device)
            with torch.cuda.graph(graph):
                self._function()
            self._graph = graph
            graph.replay()  # recording it has not done the work
