"""What an encoder is: a compiled function that writes what one snake sees, and a description of the numbers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from arena.errors import ArenaError
from arena.jit import njit

if TYPE_CHECKING:
    import torch

WAIT_MAX = 8  # turns until a cell is free, capped: further ahead than this the body will have moved elsewhere


@njit
def measure_nothing(match):
    """For encoders whose seats have no measurements in common."""
    return 0


@njit
def write_nothing(match, snake, common, out):
    """In place of what an encoder writes, where nobody reads it."""


class CellWords(NamedTuple):
    """How a GPU writes rows that are made of cells, in words: first the cells of all matches, then the rows."""

    cell: Callable  # cell(match, cell): compiled; a byte that says what is on a cell, the same for all seats
    write: Callable  # write(match, snake, cells, part, out): compiled; a part of the row, given the bytes of all cells
    parts: int  # of a row


class RowParts(NamedTuple):
    """How a GPU writes rows that take long: first what the seats of a match share, then the rows, a thread a part."""

    share: Callable  # share(match, words): compiled; writes into 64-bit words of the match
    words: int  # of a match
    write: Callable  # write(match, snake, words, part, out): compiled; a part of the row, given these words
    parts: int  # of a row


class Encoder(NamedTuple):
    """W numbers per snake: how they are written, their bounds, and the factors that bring them to about [-1, 1].

    `version` is raised when a number changes its meaning. Snapshots carry name and version, so that a network is never
    fed with observations that it was not trained on.
    """

    name: str
    version: int
    dtype: type  # numpy's
    low: np.ndarray  # [W]
    high: np.ndarray  # [W]
    scale: np.ndarray  # [W]
    encode: Callable  # encode(match, snake, common, out): compiled; out is one row of W numbers, or of W / 8 words
    direction_at: int  # index of the own direction, one-hot over four actions: its opposite would be a reversal
    measure: Callable = measure_nothing  # measure(match): compiled; what all seats of a match have in common
    words: bool = False  # `encode` writes 64-bit words instead of single numbers
    searches: bool = False  # `encode` takes microseconds: a few matches are worth several cores
    sparse: bool = False  # `encode` writes non-zero numbers only; rows are zeroed before
    orientation_at: int | None = None  # index of the orientation of the view; None: the board as it is
    # A GPU runs one of these, or, without either, `encode` with a thread for each row.
    cell_words: CellWords | None = None
    row_parts: RowParts | None = None

    @property
    def width(self) -> int:
        """W."""
        return len(self.low)

    def check(self) -> None:
        """ArenaError, in one line, if networks, buffers or loops cannot work with this description."""
        wrong = ""
        if self.dtype not in (np.int8, np.uint8):
            wrong = f"dtype is {getattr(self.dtype, '__name__', self.dtype)}; allowed: numpy's int8 and uint8"
        elif self.width == 0 or self.width % 8:
            wrong = f"width is {self.width}; need a multiple of 8, because buffers copy whole words"
        elif not self.low.shape == self.high.shape == self.scale.shape == (self.width,):
            wrong = f"low, high and scale have the shapes {self.low.shape}, {self.high.shape} and {self.scale.shape}"
        elif not 0 <= self.direction_at <= self.width - 4:
            wrong = f"direction_at is {self.direction_at}; allowed: 0 to {self.width - 4}"
        elif self.orientation_at is not None and not 0 <= self.orientation_at < self.width:
            wrong = f"orientation_at is {self.orientation_at}; allowed: 0 to {self.width - 1}"
        elif not ((hasattr(self.encode, "py_func") and hasattr(self.measure, "py_func")) or numba.config.DISABLE_JIT):
            wrong = "encode and measure must be compiled: write @njit of arena.jit above them"
        if wrong:
            raise ArenaError(f"encoder {self.name!r}: {wrong}")

    def orientations(self, obs: "torch.Tensor") -> "torch.Tensor":
        """Orientations [N] of observations [N, W]: a view where they are part of the observation, else zeros."""
        return obs.new_zeros(len(obs)) if self.orientation_at is None else obs[:, self.orientation_at]
