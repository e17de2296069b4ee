"""The loops over a batch on a GPU: one thread per match or per seat, each calling the same functions as the CPU.

Imported only when a CUDA device is used. Launches go to torch's current stream, so they can be captured in a
torch.cuda.graph, and nothing here waits for the device except `faults`.
"""

from typing import Any

import torch

from arena import rules
from arena.backends.numba_cuda import cuda, cuda_kernel
from arena.backends.tensors import Memory
from arena.encoders import observe
from arena.encoders.distances import measure
from arena.rng import match_key

THREADS = 128


@cuda_kernel
def start_kernel(state, keys, numbers, mask, seed, stride):
    b = cuda.grid(1)
    if b < state.shape[0] and mask[b]:
        numbers[b] += stride
        keys[b] = match_key(seed, int(numbers[b]))
        rules.start(state[b], int(keys[b]))


@cuda_kernel
def play_kernel(state, keys, moves, ate, died, reward, over, faults):
    b = cuda.grid(1)
    if b < state.shape[0]:
        legal = True
        for snake in range(rules.SNAKES):
            legal = legal and 0 <= moves[b, snake] <= 3
        if legal:
            over[b] = rules.play_turn(state[b], int(keys[b]), moves[b], ate[b], died[b], reward[b])
        else:
            faults[0] = 1
            rules.clear_events(ate[b], died[b], reward[b])


@cuda_kernel
def features_kernel(state, seats, out):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        match = state[int(seats[i]) // rules.SNAKES]
        observe.features(match, int(seats[i]) % rules.SNAKES, measure(match), out[i])


@cuda_kernel
def turned_kernel(state, seats, out):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        match = state[int(seats[i]) // rules.SNAKES]
        observe.turned(match, int(seats[i]) % rules.SNAKES, measure(match), out[i])


@cuda_kernel
def planes_kernel(state, seats, out):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        observe.planes(state[int(seats[i]) // rules.SNAKES], int(seats[i]) % rules.SNAKES, out[i])


def launch(kernel: Any, threads: int, device: torch.device, *arguments: Any) -> None:
    """Start a kernel with one thread per item on torch's current stream; arguments may be tensors."""
    if threads == 0:
        return
    arguments = tuple(cuda.as_cuda_array(a) if isinstance(a, torch.Tensor) else a for a in arguments)
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    kernel[(threads + THREADS - 1) // THREADS, THREADS, stream](*arguments)


class CudaLoops:
    """The loops as BatchArena calls them: match-last memory, so that neighbouring threads read neighbouring bytes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda.select_device(device.index)

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape[::-1], dtype=dtype, device=self._device).t()

    def bind(self, memory: Memory, seed: int, stride: int) -> None:
        """Take the tensors to work on."""
        self._faults = torch.zeros(1, dtype=torch.int32, device=self._device)
        self._matches = len(memory.state)
        self._state = cuda.as_cuda_array(memory.state)
        self._keys = cuda.as_cuda_array(memory.keys)
        self._numbers = cuda.as_cuda_array(memory.numbers)
        self._played = [cuda.as_cuda_array(t) for t in (memory.moves, *memory.events, self._faults)]
        self._seed, self._stride = seed, stride

    def start(self, mask: torch.Tensor) -> None:
        slots = (self._state, self._keys, self._numbers, mask)
        launch(start_kernel, self._matches, self._device, *slots, self._seed, self._stride)

    def play(self) -> None:
        launch(play_kernel, self._matches, self._device, self._state, self._keys, *self._played)

    def encode(self, encoder: str, seats: torch.Tensor, out: torch.Tensor) -> None:
        rows = out.view(len(seats), observe.ENCODERS[encoder].width)
        if encoder == "planes":
            kernel, rows = planes_kernel, rows.zero_()  # zeroed in bulk: byte by byte it took 20 times as long
        else:
            kernel, rows = features_kernel if encoder == "features" else turned_kernel, rows.view(torch.int64)
        launch(kernel, len(seats), self._device, self._state, seats, rows)

    def faults(self) -> bool:
        found = bool(self._faults.item())
        self._faults.zero_()
        return found
