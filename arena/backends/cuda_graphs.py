"""CUDA graphs: work is recorded once and replayed, so that hundreds of small kernels cost one launch."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch

WARM_UPS = 3  # calls before the recording: kernels are compiled, optimizer states allocated


@contextmanager
def side_stream(device: torch.device, stream: torch.cuda.Stream | None = None) -> Iterator[None]:
    """On a GPU, another stream: work that is tied to the default stream, like DDP's hooks, can't be recorded.

    stream: a new one if it is not given.
    """
    if device.type != "cuda":
        yield
        return
    stream = stream or torch.cuda.Stream(device)
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
            self._warm_up()
        else:
            self._graph = self._record()
            self._graph.replay()  # recording it has not done the work

    def _warm_up(self) -> None:
        with side_stream(self._device):  # as the recording will
            self._function()

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # an old graph that is freed during a recording would spoil it
        torch.cuda.synchronize(self._device)
        with torch.cuda.graph(graph):
            self._function()
        return graph


class CapturedBriefly(Captured):
    """The same for a function of a few hundred calls: recording it takes milliseconds.

    Memory that nobody uses is not given back to the device before, as `Captured` does: each graph is recorded in the
    memory of the one before it. So calls of two such functions must not be replayed at the same time.
    """

    _streams: ClassVar[dict[torch.device, torch.cuda.Stream]] = {}  # one for each device: memory is kept by stream
    _last: ClassVar[dict[torch.device, torch.cuda.CUDAGraph]] = {}  # its memory lives as long as a graph in it

    def __init__(self, function: Callable[[], None], device: torch.device) -> None:
        super().__init__(function, device, True, 1)

    def _stream(self) -> torch.cuda.Stream:
        if self._device not in self._streams:
            self._streams[self._device] = torch.cuda.Stream(self._device)
        return self._streams[self._device]

    def _warm_up(self) -> None:
        with side_stream(self._device, self._stream()):
            self._function()

    def _record(self) -> torch.cuda.CUDAGraph:
        graph, last = torch.cuda.CUDAGraph(), self._last.get(self._device)
        collects = gc.isenabled()
        gc.disable()  # an old graph that is freed during a recording would spoil it
        try:
            with side_stream(self._device, self._stream()):
                # Other threads may call CUDA meanwhile: one that writes a checkpoint does.
                graph.capture_begin(last.pool() if last is not None else None, capture_error_mode="thread_local")
                try:
                    self._function()
                finally:
                    graph.capture_end()
        finally:
            if collects:
                gc.enable()
        self._last[self._device] = graph
        return graph
