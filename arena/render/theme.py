"""The look of a board, the same in pictures, pages, windows and terminals: colours, and sizes in cells."""

from collections.abc import Sequence

Colour = tuple[int, int, int]
# Two families that colour-blind people can distinguish: amber, orange, red against light blue, blue, violet.
SNAKE_COLOURS = ((255, 186, 60), (255, 121, 28), (226, 62, 52), (118, 204, 255), (52, 140, 255), (134, 108, 246))
TEAM_COLOURS = ((255, 121, 28), (52, 140, 255))
BEAN_COLOUR = (238, 242, 226)
BOARD_COLOURS = ((23, 26, 35), (27, 31, 41))  # a faint chequer instead of lines
STRIP_COLOUR = (13, 15, 21)
TEXT_COLOUR, FAINT_COLOUR = (214, 219, 230), (141, 150, 168)
EYE_COLOUR, PUPIL_COLOUR = (250, 250, 250), (12, 14, 20)

HEAD_RADIUS, NECK_RADIUS, TAIL_RADIUS, BEAN_RADIUS = 0.47, 0.40, 0.25, 0.23
TAIL_SHADE = 0.62  # brightness of a tail, compared with the head
# Mark on every segment, because colours of one team are hard to distinguish: nothing, a dot or a ring (radius, hole).
MARKS = ((0.0, 0.0), (0.11, 0.0), (0.19, 0.11))
MARK_ALPHA = 0.45

CELL_MIN, CELL_MAX = 12, 96  # pixels; in smaller pictures the numbers on top do not fit


def blend(a: Sequence[int], b: Sequence[int], fraction: float) -> Colour:
    """The colour that is `fraction` of the way from a to b."""
    red, green, blue = (round(x + (y - x) * fraction) for x, y in zip(a, b, strict=True))
    return red, green, blue
