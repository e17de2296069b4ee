"""Turns of a batch between players as one call: a compiled chain on one core, a CUDA graph on a GPU."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from numba import get_num_threads

from arena import BatchArena
from arena.backends.chain import chain
from arena.backends.cuda_graphs import CapturedBriefly
from arena.jit import announced, njit
from arena.rules import SNAKES
from opponents.players import Player


def bind_turns(
    arena: BatchArena, players: Sequence[tuple[Player, torch.Tensor]], moves: torch.Tensor, died: torch.Tensor
) -> Callable[[int], None] | None:
    """Some turns as one compiled call, on a GPU as replays of a recorded turn; None if a player allows neither.

    players: with their seats. died [B, 6]: deaths are added to it.
    """
    play = arena.bind_play(moves)
    on_gpu = arena.device.type == "cuda"
    if not on_gpu and (play is None or get_num_threads() > 1):
        return None  # loops that run on several cores cannot be chained
    calls = []
    for player, seats in players:
        bind_turn = getattr(player, "bind_turn", None)
        found = bind_turn(arena, seats, moves) if bind_turn is not None else ()
        if not found:
            return None
        calls += found
    turns = _recorded(arena, calls, moves, died) if on_gpu else _chained(arena, [*calls, play], died)

    def play_turns(count: int) -> None:
        with announced(f"turns of {' and '.join(player.name for player, _ in players)}"):
            turns(count)

    return play_turns


def _recorded(
    arena: BatchArena, calls: Sequence[Callable[[], None]], moves: torch.Tensor, died: torch.Tensor
) -> Callable[[int], None]:
    """Turns as replays of a CUDA graph. calls: write the moves of both players."""

    def play_turn() -> None:
        for call in calls:
            call()
        died.add_(arena.play_turn(moves).died)

    turn = CapturedBriefly(play_turn, arena.device)

    def play_turns(count: int) -> None:
        for _ in range(count):
            turn()

    return play_turns


def _chained(arena: BatchArena, calls: Sequence[Callable[[], None]], died: torch.Tensor) -> Callable[[int], None]:
    """Turns as one compiled call. calls: write the moves of both players and play the turn."""
    return chain([*calls, partial(_add_deaths, arena.events.died.numpy(), died.numpy())])


@njit
def _add_deaths(died, deaths):
    for b in range(died.shape[0]):
        for snake in range(SNAKES):
            deaths[b, snake] += died[b, snake]
