"""A match as text: plain characters for files, or colours and half blocks for terminals.

Plain, a cell is two characters wide: `>3` a head with its direction, ` 3` a body, ` *` a bean, ` .` a free cell.
With colours, a cell is four half blocks wide and four high, so that the board fits into 80 columns and 20 lines; in a
smaller terminal it is two columns wide and one line high.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from arena.match_dict import gains, team_scores
from arena.render.theme import BEAN_COLOUR, BOARD_COLOURS, PUPIL_COLOUR, SNAKE_COLOURS, TAIL_SHADE, TEAM_COLOURS, blend
from arena.rules import COLUMNS, DOWN, LEFT, RIGHT, ROWS, TEAM, TURNS, UP
from arena.snake_names import TEAMS

Colour = tuple[int, int, int]
ARROWS = {UP: "^", DOWN: "v", LEFT: "<", RIGHT: ">"}
# The nearest of the 256 terminal colours.
CODES = dict(zip((*SNAKE_COLOURS, *BOARD_COLOURS), (214, 208, 196, 117, 33, 99, 233, 234), strict=True))
CODES |= {BEAN_COLOUR: 255, PUPIL_COLOUR: 232}
RESET = "\x1b[0m"
SIDE = 4  # half blocks of a cell, across and down
LARGE = (SIDE * COLUMNS, SIDE // 2 * ROWS + 4)  # columns and lines that the large board needs, with the lines above it


class Terminal(NamedTuple):
    """What a terminal can show."""

    colour: bool = False
    true_colour: bool = False  # 16 million colours, not 256
    large: bool = True  # room for four half blocks per cell


PLAIN = Terminal()


def terminal(is_terminal: bool, environment: Mapping[str, str], size: tuple[int, int]) -> Terminal:
    """The abilities of the terminal behind standard output. NO_COLOR and TERM=dumb ask for plain text."""
    if not is_terminal or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return PLAIN
    true_colour = environment.get("COLORTERM", "") in ("truecolor", "24bit")
    return Terminal(True, true_colour, size[0] >= LARGE[0] and size[1] >= LARGE[1])


def ansi(match: dict[str, Any], shown: Terminal = PLAIN) -> str:
    """A match as text. The score of a team is the sum of its snakes' gains: `red 3: 0+2> 1+1> 2+0^`."""
    lines = _plain(match) if not shown.colour else _large(match, shown) if shown.large else _small(match, shown)
    return "\n".join([_header(match, shown), *lines])


def _header(match: dict[str, Any], shown: Terminal) -> str:
    scores, teams = team_scores(match), []
    for team, name in enumerate(TEAMS):
        entries = []
        for snake in range(team * TEAM, team * TEAM + TEAM):
            entry = f"{snake}{gains(match)[snake]:+d}{ARROWS[match['directions'][snake]]}"
            entries.append(_painted(entry, SNAKE_COLOURS[snake], None, shown))
        teams.append(f"{_painted(f'{name} {scores[team]}', TEAM_COLOURS[team], None, shown)}: {' '.join(entries)}")
    return f"turn {match['turn']}/{TURNS}  {'  '.join(teams)}"


def _plain(match: dict[str, Any]) -> list[str]:
    board = [[" ."] * COLUMNS for _ in range(ROWS)]
    for row, column in match["beans"]:
        board[row][column] = " *"
    for snake, body in enumerate(match["snakes"]):
        for row, column in body:
            board[row][column] = f" {snake}"
        for row, column in body[:1]:
            board[row][column] = f"{ARROWS[match['directions'][snake]]}{snake}"
    return ["".join(cells) for cells in board]


def _small(match: dict[str, Any], shown: Terminal) -> list[str]:
    """Two columns and one line per cell: the cells of snakes are filled, heads have their number."""
    grounds = [[BOARD_COLOURS[(row + column) % 2] for column in range(COLUMNS)] for row in range(ROWS)]
    texts = dict.fromkeys(map(tuple, match["beans"]), ("● ", BEAN_COLOUR))
    for snake, body in enumerate(match["snakes"]):
        for i, (row, column) in enumerate(body):
            grounds[row][column] = _shade(snake, i / len(body), shown)
        for row, column in body[:1]:
            texts[row, column] = (f"{ARROWS[match['directions'][snake]]}{snake}", PUPIL_COLOUR)
    lines = []
    for row in range(ROWS):
        cells = ((texts.get((row, column), ("  ", BEAN_COLOUR)), grounds[row][column]) for column in range(COLUMNS))
        lines.append("".join(_painted(text, ink, ground, shown) for (text, ink), ground in cells))
    return lines


def _large(match: dict[str, Any], shown: Terminal) -> list[str]:
    """Four half blocks across and four down per cell; segments of a body touch, those of its neighbours do not."""
    height, width = ROWS * SIDE, COLUMNS * SIDE
    pixels = [[BOARD_COLOURS[(y // SIDE + x // SIDE) % 2] for x in range(width)] for y in range(height)]
    numbers: dict[tuple[int, int], tuple[str, Colour]] = {}  # line, column -> number on a head, its ground

    def fill(top: int, left: int, rows: int, columns: int, colour: Colour) -> None:
        for y in range(top, top + rows):
            for x in range(left, left + columns):
                pixels[y % height][x % width] = colour

    for row, column in match["beans"]:
        fill(row * SIDE + 1, column * SIDE + 1, 2, 2, BEAN_COLOUR)
    for snake, body in enumerate(match["snakes"]):
        for i in reversed(range(len(body))):
            (row, column), colour = body[i], _shade(snake, i / len(body), shown)
            fill(row * SIDE, column * SIDE, SIDE - 1, SIDE - 1, colour)
            if i == 0:
                continue
            rows, columns = body[i - 1][0] - row, body[i - 1][1] - column
            if columns == 0 and abs(rows) in (1, ROWS - 1):  # the gap to the segment ahead, which is below or above
                fill(row * SIDE + (SIDE - 1 if rows in (1, 1 - ROWS) else -1), column * SIDE, 1, SIDE - 1, colour)
            elif rows == 0 and abs(columns) in (1, COLUMNS - 1):
                fill(row * SIDE, column * SIDE + (SIDE - 1 if columns in (1, 1 - COLUMNS) else -1), SIDE - 1, 1, colour)
        for row, column in body[:1]:
            numbers[row * SIDE // 2, column * SIDE + 1] = (str(snake), SNAKE_COLOURS[snake])
    lines = []
    for y in range(0, height, 2):
        line = []
        for x in range(width):
            if (y // 2, x) in numbers:
                number, ground = numbers[y // 2, x]
                line.append(_painted(number, PUPIL_COLOUR, ground, shown))
            else:
                line.append(_painted("▀", pixels[y][x], pixels[y + 1][x], shown))
        lines.append(_joined(line))
    return lines


def _shade(snake: int, way: float, shown: Terminal) -> Colour:
    """The colour of a segment: darker towards the tail. Of 256 colours, too few are left for shades."""
    return blend((0, 0, 0), SNAKE_COLOURS[snake], 1 + (TAIL_SHADE - 1) * way if shown.true_colour else 1)


def _painted(text: str, ink: Colour, ground: Colour | None, shown: Terminal) -> str:
    if not shown.colour:
        return text
    codes = f"38;{_code(ink, shown)}" + ("" if ground is None else f";48;{_code(ground, shown)}")
    return f"\x1b[{codes}m{text}{RESET}"


def _joined(painted: list[str]) -> str:
    """Painted characters as one line; equal codes that follow each other are written once."""
    line, before = "", ""
    for piece in painted:
        codes, _, text = piece.removesuffix(RESET).partition("m")
        line += text if codes == before else f"{codes}m{text}"
        before = codes
    return line + RESET


def _code(colour: Colour, shown: Terminal) -> str:
    if shown.true_colour:
        return "2;" + ";".join(map(str, colour))
    return f"5;{CODES[colour]}"
