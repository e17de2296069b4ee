"""The loops over a batch on a CPU: one in order for small batches, one over all cores for large ones.

The two are separate functions because Numba keeps compiled code by function name: variants of one function would
overwrite each other in its cache. The int() around array elements are for plain Python, where a numpy integer would
keep its narrow type; compiled code is the same with and without.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numba import prange

from arena import rules
from arena.backends import encode, parallel
from arena.backends.loops import runs_parallel
from arena.backends.parallel import call_at
from arena.backends.tensors import BatchState
from arena.encoders import Encoder
from arena.errors import ArenaError
from arena.jit import njit, njit_parallel
from arena.rng import match_key

CHUNK = 32  # matches that one core takes at a stretch
SEARCH_COST = 8  # an encoder that searches takes as long as this many turns of a match


@njit
def start_serial(state, keys, numbers, mask, seed, stride):
    for b in range(state.shape[0]):
        if mask[b]:
            numbers[b] += stride
            keys[b] = match_key(seed, int(numbers[b]))
            rules.start(state[b], int(keys[b]))


@njit
def play_serial(state, keys, actions, ate, died, reward, over):
    for b in range(state.shape[0]):
        over[b] = rules.play_turn(state[b], int(keys[b]), actions[b], ate[b], died[b], reward[b])


@njit_parallel
def play_parallel(address, state, keys, actions, ate, died, reward, over):
    """`address` is that of play_serial."""
    for chunk in prange((state.shape[0] + CHUNK - 1) // CHUNK):
        p = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        part = (state[p], keys[p], actions[p], ate[p], died[p], reward[p], over[p])
        call_at(address, part, (state, keys, actions, ate, died, reward, over))


@njit
def all_in_range(actions):
    seen = 0
    for b in range(actions.shape[0]):
        for snake in range(rules.SNAKES):
            seen |= int(actions[b, snake])
    return seen & ~3 == 0


class Calls(NamedTuple):
    """Bound loops that make a turn."""

    encode: partial
    play: partial
    start: partial


class CpuBackend:
    """The loops as BatchArena calls them: match-first memory, shared with torch."""

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def bind(self, batch: BatchState, seed: int, stride: int) -> None:
        """Take the tensors to work on."""
        self._state = batch.state.numpy()
        self._keys = batch.keys.numpy()
        self._numbers = batch.numbers.numpy()
        self._actions = batch.actions.numpy()
        self._events = tuple(tensor.numpy() for tensor in batch.events)
        self._over = batch.events.over
        self._seed, self._stride = seed, stride
        self._play_parallel = parallel.bind(
            play_parallel, play_serial, self._state, self._keys, self._actions, *self._events
        )
        self._bound: tuple = ()

    def start(self, mask: torch.Tensor) -> None:
        # Most often it is our own tensor, whose view is at hand: making one takes longer than starting the matches.
        chosen = self._events[3] if mask is self._over else mask.numpy()
        start_serial(self._state, self._keys, self._numbers, chosen, self._seed, self._stride)

    def bind_serial(
        self, encoder: Encoder, seats: torch.Tensor, out: torch.Tensor, actions: torch.Tensor, matches: slice
    ) -> Calls:
        """Calls for one core that encode, play a turn with actions that nobody checks, and start what is over."""
        encode_seats = partial(encode.cpu_loop(encoder), *self._encode_arrays(encoder, seats, out))
        arrays = (array[matches] for array in (self._state, self._keys, self._numbers, self._events[3]))
        start = partial(start_serial, *arrays, self._seed, self._stride)
        return Calls(encode_seats, self.bind_play(actions, matches), start)

    def bind_play(self, actions: torch.Tensor, matches: slice = slice(None)) -> partial:
        """A call for one core that plays a turn with actions that nobody checks."""
        arrays = (array[matches] for array in (self._state, self._keys, actions.numpy(), *self._events))
        return partial(play_serial, *arrays)

    def play(self) -> None:
        if not all_in_range(self._actions):
            b, snake = np.argwhere(self._actions & ~3)[0]
            raise ArenaError(
                f"action of snake {snake} in match {b} is outside 0-3 (up, down, left, right); nothing was played"
            )
        if runs_parallel(len(self._state)):
            self._play_parallel()
        else:
            play_serial(self._state, self._keys, self._actions, *self._events)

    def encode(self, encoder: Encoder, seats: torch.Tensor, out: torch.Tensor) -> None:
        if self._bound[:3] != (encoder.name, id(seats), id(out)):
            arrays = self._encode_arrays(encoder, seats, out)
            loops = (partial(encode.cpu_loop(encoder), *arrays), encode.bind_parallel(encoder, *arrays))
            # Kept with the tensors themselves, so that neither can be freed and another come in its place.
            self._bound = (encoder.name, id(seats), id(out), seats, out, loops)
        matches = len(seats) // rules.SNAKES
        self._bound[-1][runs_parallel(SEARCH_COST * matches if encoder.searches else matches)]()

    def _encode_arrays(self, encoder: Encoder, seats: torch.Tensor, out: torch.Tensor) -> tuple[np.ndarray, ...]:
        rows = out.numpy().reshape(len(seats), encoder.width)
        return self._state, seats.numpy(), rows.view(np.uint64) if encoder.words else rows

    def faults(self) -> bool:
        return False
