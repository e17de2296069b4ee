"""Packed rows: the observations of `planes` and `tactical_board` with one byte per cell instead of six.

A cell is free, has a bean, or belongs to one snake, so one byte says what six planes say: bits 0-3 hold the turns until
the cell is free (1-8), bits 4-6 the kind of the cell. The other numbers of the row follow unchanged. A row of `planes`
takes 208 bytes instead of 1,208, one of `tactical_board` 296 instead of 1,128. Networks on a GPU read packed rows
(marl/networks/packed_rows.py); `unpack` gives the plain rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arena.encoders.egocentric import E_VECTOR, E_WIDTH, REACH, SIDE, WINDOW, write_vector
from arena.encoders.encoder import WAIT_MAX, CellWords, Encoder
from arena.encoders.features import canonical_orientation
from arena.encoders.orientation import to_board
from arena.encoders.plane_cells import BEANS, FOES, HEADS, MATES, OWN, WAIT_BITS, packed_cell, scalar_word, view_word
from arena.encoders.planes import P_SCALARS, PLANES, PLANES_ENCODER
from arena.encoders.tactical import TACTICAL_BOARD, write_actions
from arena.jit import njit
from arena.rules import (
    BEAN,
    BOARD,
    CELLS,
    COLUMNS,
    FREE,
    HEAD,
    ROWS,
    SNAKE,
    TEAM,
    turns_until_free,
)

if TYPE_CHECKING:
    import torch

CODE_MAX = (FOES + HEADS) << WAIT_BITS | WAIT_MAX


class Packing(NamedTuple):
    """An encoder, and the packed form of its rows: a byte for each of `cells` cells, and from `rest_at` on the numbers
    that belong to no cell. The plain row has six planes of cells, in the order of `planes`, and then these numbers."""

    plain: Encoder
    packed: Encoder
    cells: int
    rest_at: int

    @property
    def rest(self) -> int:
        """Numbers that belong to no cell."""
        return self.plain.width - PLANES * self.cells

    def unpack(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Plain rows [..., W] of packed ones [..., bytes]."""
        import torch

        codes, rest = rows[..., : self.cells], rows[..., self.rest_at : self.rest_at + self.rest]
        kind, wait = codes >> WAIT_BITS, codes & (1 << WAIT_BITS) - 1
        bodies = [wait * (kind & 3 == owner) for owner in (OWN, MATES, FOES)]
        marks = [(kind == mark).to(rows.dtype) for mark in (MATES + HEADS, FOES + HEADS, BEANS)]
        return torch.cat((*bodies, *marks, rest), -1)

    def pack(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Packed rows [..., bytes] of plain ones [..., W]. For checkpoints with plain rows; encoders write packed ones.

        Body cells have a wait of at least 1, and a cell has at most one owner and one mark.
        """
        import torch

        planes = rows[..., : PLANES * self.cells].unflatten(-1, (PLANES, self.cells))
        own, mates, foes, *marks = planes.unbind(-2)
        kinds = MATES * (mates > 0).to(rows.dtype) + FOES * (foes > 0).to(rows.dtype) + HEADS * sum(marks)
        packed = torch.zeros(*rows.shape[:-1], self.packed.width, dtype=rows.dtype, device=rows.device)
        packed[..., : self.cells] = (own + mates + foes) | (kinds << WAIT_BITS)
        packed[..., self.rest_at : self.rest_at + self.rest] = rows[..., PLANES * self.cells :]
        return packed


@njit
def cell_code(match, snake, cell):
    """What a snake sees on a cell."""
    what = int(match[BOARD + cell])
    if what == FREE:
        return 0
    if what == BEAN:
        return BEANS << WAIT_BITS
    other = what - SNAKE
    wait = min(WAIT_MAX, turns_until_free(match, cell))
    if other == snake:
        return wait
    kind = MATES if other // TEAM == snake // TEAM else FOES
    kind += HEADS if int(match[HEAD + other]) == cell else 0
    return kind << WAIT_BITS | wait


@njit
def encode_packed_planes(match, snake, common, out):
    """Write the packed row of `planes`; out holds 64-bit words, all of which are written."""
    head = int(match[HEAD + snake])
    row = (ROWS + head // COLUMNS - ROWS // 2) % ROWS
    first_column = (COLUMNS + head % COLUMNS - COLUMNS // 2) % COLUMNS
    column = first_column
    left = COLUMNS  # cells of this row of the board that are not written yet
    for at in range(CELLS // 8):
        word = 0
        for byte in range(8):
            word |= cell_code(match, snake, (row * COLUMNS + column) & 255) << 8 * byte
            column = column + 1 if column < COLUMNS - 1 else 0
            left -= 1
            if left == 0:
                row = row + 1 if row < ROWS - 1 else 0
                column = first_column
                left = COLUMNS
        out[at] = word
    out[CELLS // 8] = scalar_word(match, snake)


@njit
def write_packed_planes(match, snake, cells, at, out):
    """The same on a GPU: word `at` of a row, given packed_cell of all cells."""
    out[at] = scalar_word(match, snake) if at == CELLS // 8 else view_word(match, snake, cells, at)


T_REST_AT = (WINDOW + 7) // 8 * 8


@njit
def encode_packed_tactical_board(match, snake, common, out):
    """Write the packed row of `tactical_board`; out is a row of zeros."""
    distances, searched = common
    orientation = canonical_orientation(match, snake, distances)
    head = int(match[HEAD + snake])
    for ahead in range(-REACH, REACH + 1):
        for aside in range(-REACH, REACH + 1):
            rows, columns = to_board(orientation, ahead, aside)
            row = (ROWS + head // COLUMNS + rows) % ROWS
            column = (COLUMNS + head % COLUMNS + columns) % COLUMNS
            code = cell_code(match, snake, (row * COLUMNS + column) & 255)
            if code != 0:
                out[(ahead + REACH) * SIDE + aside + REACH] = code
    rest = T_REST_AT - PLANES * WINDOW  # from a place in the plain row to the same number's place here
    write_vector(match, snake, distances, orientation, out, rest + E_VECTOR)
    write_actions(match, snake, orientation, searched, out, rest + E_WIDTH)


def _packing(
    plain: Encoder, cells: int, rest_at: int, encode: Callable, cell_words: CellWords | None = None
) -> Packing:
    """cell_words: of an `encode` that writes words."""
    words = cell_words is not None
    used = rest_at + plain.width - PLANES * cells
    low: np.ndarray = np.zeros((used + 7) // 8 * 8, plain.dtype)
    high: np.ndarray = np.zeros_like(low)
    high[:cells] = CODE_MAX
    low[rest_at:used], high[rest_at:used] = plain.low[PLANES * cells :], plain.high[PLANES * cells :]
    moved = rest_at - PLANES * cells
    orientation_at = None if plain.orientation_at is None else plain.orientation_at + moved
    packed = Encoder(
        f"packed_{plain.name}", plain.version, plain.dtype, low, high, np.ones(len(low), np.float32), encode,
        plain.direction_at + moved, plain.measure, words=words, searches=plain.searches, sparse=not words,
        orientation_at=orientation_at, cell_words=cell_words,
    )  # fmt: skip
    return Packing(plain, packed, cells, rest_at)


PLANES_WORDS = CellWords(packed_cell, write_packed_planes, CELLS // 8 + 1)
# By the name of the plain encoder.
PACKINGS = {
    packing.plain.name: packing
    for packing in (
        _packing(PLANES_ENCODER, CELLS, P_SCALARS // PLANES, encode_packed_planes, PLANES_WORDS),
        _packing(TACTICAL_BOARD, WINDOW, T_REST_AT, encode_packed_tactical_board),
    )
}
