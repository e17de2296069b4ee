"""Positions of the parts of a window, for a given window size. The unit is the side of a cell."""

from typing import NamedTuple

from arena.render.theme import CELL_MAX, CELL_MIN
from arena.rules import COLUMNS, ROWS

TOP, BOTTOM = 2.5, 2.1  # heights above and below the board, in cells
FRACTION_OF_SCREEN = 0.6  # largest width or height of a new window, as a fraction of the screen
TEXT_MIN = 11  # pixels


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: int
    top: int
    width: int
    height: int


class Layout:
    """The parts of a window."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)
        self.cell = cell = min(max(min(width // COLUMNS, int(height / (TOP + ROWS + BOTTOM))), CELL_MIN), CELL_MAX)
        top, bottom = round(TOP * cell), round(BOTTOM * cell)
        left, above = (width - COLUMNS * cell) // 2, (height - top - ROWS * cell - bottom) // 2
        self.head = Box(left, above, COLUMNS * cell, top)
        self.board = Box(left, above + top, COLUMNS * cell, ROWS * cell)
        self.foot = Box(left, above + top + ROWS * cell, COLUMNS * cell, bottom)
        edge = round(0.4 * cell)
        self.scrub = Box(left + edge, self.foot.top + round(0.25 * cell), COLUMNS * cell - 2 * edge, round(0.4 * cell))
        self.buttons = Box(self.scrub.left, self.foot.top + round(0.9 * cell), self.scrub.width, round(cell))

    def text(self, cells: float) -> int:
        """The height of a text in pixels, given in cells; at least TEXT_MIN."""
        return max(TEXT_MIN, round(cells * self.cell))


def first_size(screen: tuple[int, int]) -> tuple[int, int]:
    """The size in pixels of a new window on a screen of this size."""
    across, down = (FRACTION_OF_SCREEN * side for side in screen)
    cell = min(max(int(min(across / COLUMNS, down / (TOP + ROWS + BOTTOM))), 2 * CELL_MIN), CELL_MAX)
    return COLUMNS * cell, round(TOP * cell) + ROWS * cell + round(BOTTOM * cell)
