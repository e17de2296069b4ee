"""The loops over a batch on a GPU: one thread per match or per seat, each calling the same functions as the CPU.

Imported only when a CUDA device is used. Launches go to torch's current stream, so they can be captured in a
torch.cuda.graph, and nothing here waits for the device except `faults`.
"""

import torch

from arena import rules
from arena.backends.encode import encode_kernel
from arena.backends.loops import launch
from arena.backends.numba_cuda import cuda, cuda_kernel
from arena.backends.tensors import BatchState
from arena.encoders import Encoder
from arena.rng import match_key


@cuda_kernel
def start_kernel(state, keys, numbers, mask, seed, stride):
    b = cuda.grid(1)
    if b < state.shape[0] and mask[b]:
        numbers[b] += stride
        keys[b] = match_key(seed, int(numbers[b]))
        rules.start(state[b], int(keys[b]))


@cuda_kernel
def play_kernel(state, keys, actions, ate, died, reward, over, faults):
    b = cuda.grid(1)
    if b < state.shape[0]:
        legal = True
        for snake in range(rules.SNAKES):
            legal = legal and 0 <= actions[b, snake] <= 3
        if legal:
            over[b] = rules.play_turn(state[b], int(keys[b]), actions[b], ate[b], died[b], reward[b])
        else:
            faults[0] = 1
            rules.clear_events(ate[b], died[b], reward[b])


class CudaBackend:
    """The loops as BatchArena calls them: match-last memory, so that neighbouring threads read neighbouring bytes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda.select_device(device.index)

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape[::-1], dtype=dtype, device=self._device).t()

    def bind(self, batch: BatchState, seed: int, stride: int) -> None:
        """Take the tensors to work on."""
        self._faults = torch.zeros(1, dtype=torch.int32, device=self._device)
        self._matches = len(batch.state)
        self._state = cuda.as_cuda_array(batch.state)
        self._keys = cuda.as_cuda_array(batch.keys)
        self._numbers = cuda.as_cuda_array(batch.numbers)
        self._played = [cuda.as_cuda_array(t) for t in (batch.actions, *batch.events, self._faults)]
        self._seed, self._stride = seed, stride

    def start(self, mask: torch.Tensor) -> None:
        slots = (self._state, self._keys, self._numbers, mask)
        launch(start_kernel, self._matches, self._device, *slots, self._seed, self._stride)

    def play(self) -> None:
        launch(play_kernel, self._matches, self._device, self._state, self._keys, *self._played)

    def encode(self, encoder: Encoder, seats: torch.Tensor, out: torch.Tensor) -> None:
        rows = out.view(len(seats), encoder.width)
        if encoder.sparse:
            rows.zero_()  # in bulk: byte by byte in the kernel it took 20 times as long
        rows = rows.view(torch.int64) if encoder.words else rows
        launch(encode_kernel(encoder), len(seats), self._device, self._state, seats, rows)

    def faults(self) -> bool:
        found = bool(self._faults.item())
        self._faults.zero_()
        return found
