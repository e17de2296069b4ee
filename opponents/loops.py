"""Runs a scripted opponent for any seats of a batch, on the CPU or on the GPU, without leaving the device.

The functions serial and kernel are templates: `decide` is a global name in them. Each opponent gets its own
copies, in which this name stands for its own function. Closures would not do: Numba does not cache closures over
compiled functions.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from numba import prange

from arena import BatchArena
from arena.backends import parallel
from arena.backends.loops import launch, runs_parallel, specialise
from arena.backends.parallel import call_at
from arena.jit import announced, njit, njit_parallel
from arena.rng import DRAW_RANGE, SLOT_NOISE, draw
from arena.rules import SNAKES, TURN
from opponents.scripted import level0

CHUNK = 16 * SNAKES  # seats that one thread takes at a time
NOT_NEGATIVE = 0x7FFFFFFF  # seats have no sign bit; the compiler divides and indexes faster if it knows that


def decide(match, key, snake):
    """Placeholder of the opponent's own function."""
    raise NotImplementedError


def serial(state, keys, seats, which, mine, noise, moves):
    """Decide for the seats one after another."""
    for i in range(seats.shape[0]):
        seat = int(seats[i]) & NOT_NEGATIVE
        b = seat // SNAKES
        snake = seat % SNAKES
        if which[b] != mine:
            continue
        if noise > 0 and draw(int(keys[b]), int(state[b, TURN]), SLOT_NOISE + snake) < noise:
            moves[b, snake] = level0(state[b], int(keys[b]), snake)
        else:
            moves[b, snake] = decide(state[b], int(keys[b]), snake)


@njit_parallel
def decide_parallel(address, state, keys, seats, which, mine, noise, moves):
    """Decide for chunks of the seats on all cores. `address` is that of an opponent's serial loop."""
    for chunk in prange((seats.shape[0] + CHUNK - 1) // CHUNK):
        part = seats[chunk * CHUNK : (chunk + 1) * CHUNK]
        compiled_for = (state, keys, seats, which, mine, noise, moves)
        call_at(address, (state, keys, part, which, mine, noise, moves), compiled_for)


def kernel(state, keys, seats, which, mine, noise, moves):
    """Decide for one seat in each GPU thread."""
    i = cuda.grid(1)  # noqa: F821 - the copy for a GPU has this global name
    if i < seats.shape[0] and which[int(seats[i]) // SNAKES] == mine:
        b = int(seats[i]) // SNAKES
        snake = int(seats[i]) % SNAKES
        if noise > 0 and draw(int(keys[b]), int(state[b, TURN]), SLOT_NOISE + snake) < noise:
            moves[b, snake] = level0(state[b], int(keys[b]), snake)
        else:
            moves[b, snake] = decide(state[b], int(keys[b]), snake)


@njit
def decide_mix(addresses, state, keys, seats, which, noise, moves):
    """Decide for all opponents of a mix. addresses [opponents] of their serial loops, 0 for opponents to leave out."""
    for mine in range(addresses.shape[0]):
        if addresses[mine] != 0:
            arguments = (state, keys, seats, which, mine, noise, moves)
            call_at(addresses[mine], arguments, arguments)


@cache
def _cpu_loop(function: Callable[..., int]) -> Callable:
    return njit(specialise(serial, function.__name__, decide=function), function)


@cache
def _cuda_kernel(function: Callable[..., int]) -> Any:
    from arena.backends.numba_cuda import cuda, cuda_kernel

    return cuda_kernel(specialise(kernel, function.__name__, decide=function, cuda=cuda), function)


_called: set[tuple[Callable, str]] = set()


def bind(
    function: Callable[..., int],
    arena: BatchArena,
    seats: torch.Tensor,
    moves: torch.Tensor,
    noise: float = 0.0,
    which: torch.Tensor | None = None,
    mine: int = 0,
) -> Callable[[], None]:
    """A function without arguments that writes the opponent's moves for `seats` into moves [B, 6] int8.

    seats is int32, match * 6 + snake. With `which` [B] uint8 only matches where it equals `mine` get moves, so a mix of
    opponents needs no sorting. `noise` is the fraction of random moves. Each call reads and writes in place.
    """
    if which is None:
        which = torch.full((arena.matches,), mine, dtype=torch.uint8, device=arena.device)
    if arena.device.type == "cuda":
        tensors, numbers = (arena.state, arena.keys, seats, which), (mine, int(noise * DRAW_RANGE))
        return partial(launch, _cuda_kernel(function), len(seats), arena.device, *tensors, *numbers, moves)
    serial = bind_serial(function, arena, seats, moves, noise, which, mine)
    if runs_parallel(len(seats) // SNAKES):
        return parallel.bind(decide_parallel, serial.func, *serial.args)
    return serial


def bind_serial(
    function: Callable[..., int],
    arena: BatchArena,
    seats: torch.Tensor,
    moves: torch.Tensor,
    noise: float,
    which: torch.Tensor,
    mine: int,
) -> partial:
    """The same on one core of a CPU."""
    arrays = (tensor.numpy() for tensor in (arena.state, arena.keys, seats, which))
    return partial(_cpu_loop(function), *arrays, mine, int(noise * DRAW_RANGE), moves.numpy())


def act(function: Callable[..., int], arena: BatchArena, *arguments: Any, **options: Any) -> None:
    """Write the opponent's moves once; takes the arguments of `bind`."""
    call = bind(function, arena, *arguments, **options)
    if (function, arena.device.type) in _called:
        call()
        return
    with announced(f"{function.__name__} for {arena.device.type}"):
        call()
    _called.add((function, arena.device.type))
