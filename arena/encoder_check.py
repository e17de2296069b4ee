"""Runs a new encoder on a few matches before its first use: compiled code writes outside its row without a message.

A copy of the encoder is compiled with bounds checks, which find a wrong index in the function itself. Guard bytes
around the row find a wrong index in functions that it calls. Encoders that tests compare with plain versions
(BUILT_IN) are not run.
"""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numba
import numpy as np

from arena import match_dict, rules
from arena.encoders import BUILT_IN, Encoder
from arena.errors import ArenaError
from arena.jit import announced, cached
from arena.rng import draw, match_key
from arena.rules import COLUMNS, MATCH_BYTES, SNAKES

GUARD = 4096  # bytes in front of the row and behind it
GUARD_BYTE = 0x5A
PLAYED = (0, 20, 60)  # turns after which a drawn match is shown to the encoder

_BOUNDS_CHECKED = numba.njit(cache=True, error_model="numpy", boundscheck=True)
_passed: dict[int, Encoder] = {id(encoder): encoder for encoder in BUILT_IN}  # kept: so no id is used twice


def trust_encoder(encoder: Encoder) -> None:
    """Leave out the check of an encoder."""
    _passed[id(encoder)] = encoder


def check_encoder(encoder: Encoder) -> None:
    """ArenaError, in one line, if the encoder reads or writes outside its arrays. Runs it only at the first call."""
    if id(encoder) in _passed:
        return
    with announced(f"{encoder.name} with bounds checks"):
        encode, measure = (_with_bounds_checks(function) for function in (encoder.encode, encoder.measure))
        for match in _matches():
            for snake in range(SNAKES):
                _run(encoder, encode, measure, match, snake)
    _passed[id(encoder)] = encoder


def _run(encoder: Encoder, encode: Callable, measure: Callable, match: np.ndarray, snake: int) -> None:
    memory = np.full(GUARD + encoder.width + GUARD, GUARD_BYTE, np.uint8)
    row = memory[GUARD : GUARD + encoder.width]
    if encoder.sparse:
        row[:] = 0
    try:
        encode(match, snake, measure(match), row.view(np.uint64 if encoder.words else encoder.dtype))
    except IndexError:
        raise _refused(encoder, "an index outside its arrays") from None
    if (memory[:GUARD] != GUARD_BYTE).any() or (memory[-GUARD:] != GUARD_BYTE).any():
        raise _refused(encoder, "bytes outside its row were changed")


def _refused(encoder: Encoder, what: str) -> ArenaError:
    kind = f"{encoder.width // 8} 64-bit words (words=True)" if encoder.words else f"{encoder.width} numbers"
    return ArenaError(f"encoder {encoder.name!r}: {what}; encode(match, snake, common, out) gets a row of {kind}")


def _with_bounds_checks(function: Any) -> Any:
    """A copy that raises IndexError. It has a name of its own: Numba keeps compiled code by function name."""
    plain = getattr(function, "py_func", function)
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    copy.__qualname__ = f"bounds_checked_{plain.__qualname__}"
    copy.__module__ = plain.__module__
    return cached(_BOUNDS_CHECKED, copy)


def _matches() -> Iterator[np.ndarray]:
    """States of a drawn match, and two crowded ones: long snakes, one without room, with beans and without."""
    key = match_key(0, 0)
    match = np.zeros(MATCH_BYTES, np.uint8)
    rules.start(match, key)
    ate, died = np.zeros(SNAKES, np.bool_), np.zeros(SNAKES, np.bool_)
    reward = np.zeros(SNAKES, np.int16)
    for turn in range(PLAYED[-1] + 1):
        if turn in PLAYED:
            yield match.copy()
        moves = np.array([draw(key, turn, snake) & 3 for snake in range(SNAKES)], np.int8)
        rules.play_turn(match, key, moves, ate, died, reward)
    bodies = [_winding(0, 5), _winding(8, 9)[:3], _winding(8, 9)[5:8], _winding(5, 8), _winding(8, 9)[10:13], []]
    for beans in ([], _winding(9, 10)[::4]):
        yield match_dict.from_dict(
            {"turn": rules.TURNS - 1, "snakes": bodies, "directions": [0, 1, 2, 3, 0, 1], "beans": beans}
        )


def _winding(first: int, end: int) -> list[list[int]]:
    """All cells of these rows, there and back."""
    return [[row, column] for row in range(first, end) for column in range(COLUMNS)[:: 1 - 2 * (row % 2)]]
