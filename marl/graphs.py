"""Work on a GPU, recorded once and replayed: a cycle of hundreds of small kernels then costs one launch."""

from collections.abc import Callable

import torch

# Before it is recorded, work must have run: kernels are compiled, optimiser states allocated, and DDP wants to have
# seen eleven backwards.
WARM_UPS = 3


class Captured:
    """A function without arguments whose work can be replayed: as it is at first, as a graph from then on."""

    def __init__(self, function: Callable[[], None], device: torch.device, enabled: bool) -> None:
        self._function, self._device = function, device
        self._enabled = enabled and device.type == "cuda"
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif not self._enabled:
            self._function()
        elif self._calls < WARM_UPS:
            self._calls += 1
            self._aside()
        else:
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize(self._device)
            with torch.cuda.graph(graph):
                self._function()
            self._graph = graph
            graph.replay()  # recording it has not done the work

    def _aside(self) -> None:
        """Run on a stream of its own, as recording will."""
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._function()
        torch.cuda.current_stream(self._device).wait_stream(stream)
