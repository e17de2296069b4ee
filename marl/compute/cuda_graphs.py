"""CUDA graphs: work is recorded once and replayed, so that hundreds of small kernels cost one launch."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Calls before the recording: kernels are compiled, optimizer states allocated.
WARM_UPS = 3
DDP_WARM_UPS = 11  # backward passes that DDP needs before a recording


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, a stream of its own: work that is tied to the default stream, like DDP's hooks, can't be recorded."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


class Captured:
    """A function without arguments: called as it is at first, recorded as a CUDA graph and replayed from then on."""

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
            with side_stream(self._device):  # as the recording will
                self._function()
        else:
            graph = torch.cuda.CUDAGraph()
            gc.collect()  # an old graph that is freed during a recording would spoil it
            torch.cuda.synchronize(self._device)
            with torch.cuda.graph(graph):
                self._function()
            self._graph = graph
            graph.replay()  # recording it has not done the work
