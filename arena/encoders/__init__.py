"""Encoders: what one snake sees, as small integers written straight into a row that the caller owns.

All are seat-relative: everything is measured from the own head around the torus, and the others are "mates" and "foes",
never red and blue. Snakes 0 and 4 in like places see the same numbers, so one network plays every seat. An encoder is a
compiled function and a line in ENCODERS (docs/extend.md). This package reads matches; it may import rules, rng and jit,
and knows neither loops over batches nor learning.
"""

from arena.encoders.egocentric import EGOCENTRIC
from arena.encoders.encoder import CellWords, Encoder, RowParts
from arena.encoders.features import CANONICAL, FEATURES
from arena.encoders.planes import PLANES_ENCODER
from arena.encoders.tactical import TACTICAL, TACTICAL_BOARD
from arena.errors import ArenaError

__all__ = [
    "BUILT_IN",
    "ENCODERS",
    "FORMER_NAMES",
    "CellWords",
    "Encoder",
    "RowParts",
    "board_encoder",
    "encoder_named",
]

BUILT_IN = (
    FEATURES,
    CANONICAL,
    PLANES_ENCODER,
    EGOCENTRIC,
    TACTICAL,
    TACTICAL_BOARD,
)  # all others are run on a few matches before their first use
ENCODERS = {encoder.name: encoder for encoder in BUILT_IN}
FORMER_NAMES = {"turned": "canonical"}  # snapshots and configurations may still hold them


def encoder_named(name: str) -> Encoder:
    """An encoder by its name."""
    if isinstance(name, str):
        name = FORMER_NAMES.get(name, name)
    if not isinstance(name, str) or name not in ENCODERS:
        raise ArenaError(f"unknown encoder {name!r}; known: {', '.join(sorted(ENCODERS))}")
    return _checked(ENCODERS[name])


def board_encoder(name: str) -> Encoder:
    """An encoder for policies that know nothing of orientations: their actions are those of the board."""
    allowed = {each: encoder for each, encoder in ENCODERS.items() if encoder.orientation_at is None}
    if isinstance(name, str) and name in allowed:
        return _checked(allowed[name])
    oriented = isinstance(name, str) and FORMER_NAMES.get(name, name) in ENCODERS
    why = "counts actions in the snake's own orientation" if oriented else "is unknown"
    raise ArenaError(f"observation {name!r} {why}; allowed: {', '.join(sorted(allowed))}")


def _checked(encoder: Encoder) -> Encoder:
    """The encoder itself, if its description is sound. Tests check the built-in ones, once and for all."""
    if not any(encoder is each for each in BUILT_IN):
        encoder.check()
        _check_gpu_rows(encoder)
    return encoder


def _check_gpu_rows(encoder: Encoder) -> None:
    """ArenaError for a built-in encoder with another `encode` in its place: a GPU would go on to write the old rows."""
    for each in BUILT_IN:
        parts = ((encoder.cell_words, each.cell_words), (encoder.row_parts, each.row_parts))
        is_kept = any(mine is not None and mine is theirs for mine, theirs in parts)
        if is_kept and (encoder.encode, encoder.measure) != (each.encode, each.measure):
            raise ArenaError(
                f"encoder {encoder.name!r} has its own encode or measure, but on a GPU the rows of {each.name!r}: "
                "set cell_words and row_parts to None as well"
            )
