"""The loops over a batch on the CPU: each once in order for small batches and once over all cores for large ones.

The two are separate functions because Numba keeps compiled code by function name: variants of one function would
overwrite each other in its cache. The int() around array elements are for plain Python, where a numpy integer would
keep its narrow type; compiled code is the same with and without.
"""

import numpy as np
import torch
from numba import get_num_threads, prange

from arena import rules
from arena.backends.tensors import Memory
from arena.encoders import observe
from arena.encoders.distances import measure
from arena.errors import ArenaError
from arena.jit import njit, njit_parallel
from arena.rng import match_key

# Measured: below this many matches waking the other cores costs more than they bring.
PARALLEL_FROM = 192
CHUNK = 32  # matches that one core takes at a stretch
CHUNK_SEATS = CHUNK * rules.SNAKES  # whole matches: what their seats share is then worked out once


@njit
def start_serial(state, keys, numbers, mask, seed, stride):
    for b in range(state.shape[0]):
        if mask[b]:
            numbers[b] += stride
            keys[b] = match_key(seed, int(numbers[b]))
            rules.start(state[b], int(keys[b]))


@njit
def play_serial(state, keys, moves, ate, died, reward, over):
    for b in range(state.shape[0]):
        over[b] = rules.play_turn(state[b], int(keys[b]), moves[b], ate[b], died[b], reward[b])


@njit_parallel
def play_parallel(state, keys, moves, ate, died, reward, over):
    for chunk in prange((state.shape[0] + CHUNK - 1) // CHUNK):
        p = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        play_serial(state[p], keys[p], moves[p], ate[p], died[p], reward[p], over[p])


@njit
def all_moves_in_range(moves):
    seen = 0
    for b in range(moves.shape[0]):
        for snake in range(rules.SNAKES):
            seen |= int(moves[b, snake])
    return seen & ~3 == 0


@njit
def features_serial(state, seats, out):
    last = -1
    shared = measure(state[0])
    for i in range(seats.shape[0]):
        seat = int(seats[i])
        b = seat // rules.SNAKES
        if b != last:
            shared = measure(state[b])
            last = b
        observe.features(state[b], seat % rules.SNAKES, shared, out[i])


@njit_parallel
def features_parallel(state, seats, out):
    for chunk in prange((seats.shape[0] + CHUNK_SEATS - 1) // CHUNK_SEATS):
        p = slice(chunk * CHUNK_SEATS, (chunk + 1) * CHUNK_SEATS)
        features_serial(state, seats[p], out[p])


# A loop of its own, though it is the same but for one word: compiling both takes twice as long, and most need only one.
@njit
def turned_serial(state, seats, out):
    last = -1
    shared = measure(state[0])
    for i in range(seats.shape[0]):
        seat = int(seats[i])
        b = seat // rules.SNAKES
        if b != last:
            shared = measure(state[b])
            last = b
        observe.turned(state[b], seat % rules.SNAKES, shared, out[i])


@njit_parallel
def turned_parallel(state, seats, out):
    for chunk in prange((seats.shape[0] + CHUNK_SEATS - 1) // CHUNK_SEATS):
        p = slice(chunk * CHUNK_SEATS, (chunk + 1) * CHUNK_SEATS)
        turned_serial(state, seats[p], out[p])


@njit
def planes_serial(state, seats, out):
    for i in range(seats.shape[0]):
        out[i, :] = 0
        seat = int(seats[i])
        observe.planes(state[seat // rules.SNAKES], seat % rules.SNAKES, out[i])


@njit_parallel
def planes_parallel(state, seats, out):
    for chunk in prange((seats.shape[0] + CHUNK_SEATS - 1) // CHUNK_SEATS):
        p = slice(chunk * CHUNK_SEATS, (chunk + 1) * CHUNK_SEATS)
        planes_serial(state, seats[p], out[p])


LOOPS = {
    "features": (features_serial, features_parallel),
    "turned": (turned_serial, turned_parallel),
    "planes": (planes_serial, planes_parallel),
}


def pays_to_share(matches: int) -> bool:
    """Whether so many matches are worth waking the other cores for, if Numba may use them."""
    return matches >= PARALLEL_FROM and get_num_threads() > 1


class CpuLoops:
    """The loops as BatchArena calls them: match-first memory, shared with torch."""

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def bind(self, memory: Memory, seed: int, stride: int) -> None:
        """Take the tensors to work on."""
        self._state = memory.state.numpy()
        self._keys = memory.keys.numpy()
        self._numbers = memory.numbers.numpy()
        self._moves = memory.moves.numpy()
        self._events = tuple(tensor.numpy() for tensor in memory.events)
        self._over = memory.events.over
        self._seed, self._stride = seed, stride
        self._bound: tuple = ()

    def start(self, mask: torch.Tensor) -> None:
        # Most often it is our own tensor, whose view is at hand: making one takes longer than starting the matches.
        chosen = self._events[3] if mask is self._over else mask.numpy()
        start_serial(self._state, self._keys, self._numbers, chosen, self._seed, self._stride)

    def play(self) -> None:
        if not all_moves_in_range(self._moves):
            b, snake = np.argwhere(self._moves & ~3)[0]
            raise ArenaError(
                f"action of snake {snake} in match {b} is outside 0-3 (up, down, left, right); nothing was played"
            )
        loop = play_parallel if pays_to_share(len(self._state)) else play_serial
        loop(self._state, self._keys, self._moves, *self._events)

    def encode(self, encoder: str, seats: torch.Tensor, out: torch.Tensor) -> None:
        if self._bound[:3] != (encoder, id(seats), id(out)):
            rows = out.numpy().reshape(len(seats), observe.ENCODERS[encoder].width)
            arrays = (self._state, seats.numpy(), rows if encoder == "planes" else rows.view(np.uint64))
            # Kept with the tensors themselves, so that neither can be freed and another come in its place.
            self._bound = (encoder, id(seats), id(out), seats, out, arrays)
        serial, parallel = LOOPS[encoder]
        loop = parallel if pays_to_share(len(seats) // rules.SNAKES) else serial
        loop(*self._bound[-1])

    def faults(self) -> bool:
        return False
