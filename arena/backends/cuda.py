"""The loops over a batch on a GPU: a thread or more per match or seat, calling the same functions as the CPU.

Imported only when a CUDA device is used. Launches go to torch's current stream, so they can be captured in a
torch.cuda.graph, and nothing here waits for the device except `faults`.
"""

import torch

from arena import rules
from arena.backends.encode import cell_kernels, encode_kernel, part_kernels
from arena.backends.loops import launch
from arena.backends.numba_cuda import cuda, cuda_kernel
from arena.backends.tensors import BatchState
from arena.encoders import Encoder
from arena.rng import match_key
from arena.rules import CELLS

WARP = 32  # threads that run in step
# Matches that one warp plays: few matches leave most of a GPU idle anyway, and those of a warp wait for each other.
SMALL_BATCH, SMALL_BATCH_PER_WARP = 1 << 15, 4


@cuda_kernel
def start_kernel(state, keys, numbers, mask, seed, stride):
    """A warp for each match: all its threads clear the match, one starts it."""
    b = cuda.grid(1) // WARP
    thread = cuda.grid(1) % WARP
    starts = b < state.shape[0] and mask[b]
    if starts:
        for i in range(thread, rules.MATCH_BYTES, WARP):
            state[b, i] = 0
    cuda.syncthreads()
    if starts and thread == 0:
        numbers[b] += stride
        keys[b] = match_key(seed, int(numbers[b]))
        rules.fill_board(state[b], int(keys[b]))


@cuda_kernel
def play_kernel(state, keys, actions, ate, died, reward, over, faults, played):
    """played: matches of a warp."""
    b = cuda.grid(1) // WARP * played + cuda.grid(1) % WARP
    if cuda.grid(1) % WARP < played and b < state.shape[0]:
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
        self._shared: dict[int, torch.Tensor] = {}  # what an encoder's first kernel writes, by its words for each match

    def start(self, mask: torch.Tensor) -> None:
        slots = (self._state, self._keys, self._numbers, mask)
        launch(start_kernel, self._matches * WARP, self._device, *slots, self._seed, self._stride)

    def play(self) -> None:
        played = SMALL_BATCH_PER_WARP if self._matches <= SMALL_BATCH else WARP
        threads = -(-self._matches // played) * WARP
        launch(play_kernel, threads, self._device, self._state, self._keys, *self._played, played)

    def encode(self, encoder: Encoder, seats: torch.Tensor, out: torch.Tensor) -> None:
        rows = out.view(len(seats), encoder.width)
        if encoder.cell_words is not None:
            self._encode_cells(encoder, seats, rows.view(torch.int64))
            return
        if encoder.sparse:
            rows.zero_()  # in bulk: byte by byte in the kernel it took 20 times as long
        rows = rows.view(torch.int64) if encoder.words else rows
        if encoder.row_parts is not None:
            self._encode_parts(encoder, seats, rows)
        else:
            launch(encode_kernel(encoder), len(seats), self._device, self._state, seats, rows)

    def _encode_cells(self, encoder: Encoder, seats: torch.Tensor, rows: torch.Tensor) -> None:
        of_cells, of_parts = cell_kernels(encoder)
        words = self._shared_words(CELLS // 8)
        launch(of_cells, words.numel(), self._device, self._state, words)
        parts = len(seats) * encoder.cell_words.parts
        launch(of_parts, parts, self._device, self._state, seats, words.view(torch.uint8), rows)

    def _encode_parts(self, encoder: Encoder, seats: torch.Tensor, rows: torch.Tensor) -> None:
        of_matches, of_parts = part_kernels(encoder)
        words = self._shared_words(encoder.row_parts.words)
        launch(of_matches, self._matches, self._device, self._state, words)
        launch(of_parts, len(seats) * encoder.row_parts.parts, self._device, self._state, seats, words, rows)

    def _shared_words(self, each: int) -> torch.Tensor:
        """[matches, each]: made once, since a graph that is recorded keeps its place."""
        if each not in self._shared:
            self._shared[each] = torch.zeros(self._matches, each, dtype=torch.int64, device=self._device)
        return self._shared[each]

    def faults(self) -> bool:
        found = bool(self._faults.item())
        self._faults.zero_()
        return found
