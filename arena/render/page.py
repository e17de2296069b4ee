"""Matches as one HTML page that needs nothing else: no network, no server, no other file.

The page holds the start of a match and what changed in every turn; from that it has every state that Python has. Texts
that come with a match (names) are data of the page, never part of its markup.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.jidi_log import JidiLog
from arena.render import frame
from arena.replay import Replay
from arena.rules import COLUMNS, ROWS, SNAKES, START_LENGTH, TURNS

FOLDER = Path(__file__).parent
MOVES = "udlr"  # by direction; a capital letter: and grew
ANEW = "."  # the body is no move of the one before


def page(matches: Sequence[Replay | JidiLog], turn: int = 0, extra: str = "") -> str:
    """The text of a page that shows these matches, opened at a turn; a page with `extra` markup on top has no list."""
    data = {"look": look(), "matches": [film(match) for match in matches], "turn": turn, "extra": bool(extra)}
    scripts = {name: (FOLDER / f"{name}.js").read_text("utf-8") for name in ("board", "viewer")}
    return filled("viewer.html", {"extra": extra, "data": embedded(data), **scripts})


def filled(template: str | Path, parts: dict[str, str]) -> str:
    """A page of this folder (or at a path) with its parts put in; what is put in is not looked at again."""
    text = (FOLDER / template).read_text("utf-8")
    parts = {"style": (FOLDER / "page.css").read_text("utf-8"), **parts}
    return re.sub(r"/\*part (\w+)\*/", lambda slot: parts[slot[1]], text)


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: no text in it can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def look() -> dict[str, Any]:
    """The board, and the colours and sizes of the pictures."""
    radii = {"head": frame.HEAD_RADIUS, "neck": frame.NECK_RADIUS, "tail": frame.TAIL_RADIUS, "bean": frame.BEAN_RADIUS}
    colours = {
        "snakes": frame.SNAKE_COLOURS,
        "teams": frame.TEAM_COLOURS,
        "bean": frame.BEAN_COLOUR,
        "board": frame.BOARD_COLOURS,
        "strip": frame.STRIP_COLOUR,
        "text": frame.TEXT_COLOUR,
        "eye": frame.EYE_COLOUR,
        "pupil": frame.PUPIL_COLOUR,
    }
    sizes = {"rows": ROWS, "columns": COLUMNS, "turns": TURNS, "startLength": START_LENGTH}
    marks = {"rings": frame.MARKS, "alpha": frame.MARK_ALPHA}
    return {**sizes, "radii": radii, "tailShade": frame.TAIL_SHADE, "marks": marks, **colours}


def film(match: Replay | JidiLog) -> dict[str, Any]:
    """A match as the page reads it: who plays, the start, and what every turn changed."""
    states = match.states()
    actions = match.actions() if isinstance(match, Replay) else match.actions
    lines = match.turns if isinstance(match, Replay) else [None] * len(actions)
    steps = zip(states[:-1], states[1:], actions, lines, strict=True)
    return {"red": match.red, "blue": match.blue, "start": states[0], "turns": [_change(*step) for step in steps]}


def _change(
    before: dict[str, Any], after: dict[str, Any], actions: list[int] | None, line: dict[str, Any] | None
) -> dict[str, Any]:
    """One turn: six letters for the moves, and only what these do not say."""
    letters = [_letter(before["snakes"][snake], after["snakes"][snake]) for snake in range(SNAKES)]
    if line is not None:
        died, ate = line.get("died", []), line.get("ate", [])
    else:  # a log of the competition does not say it
        died = [snake for snake in range(SNAKES) if letters[snake] == ANEW and before["snakes"][snake]]
        ate = [snake for snake in range(SNAKES) if letters[snake].isupper()]
    for snake in died:  # never a move, even where the new body looks like one
        letters[snake] = ANEW
    change: dict[str, Any] = {"moves": "".join(letters)}
    bodies = {snake: after["snakes"][snake] for snake in range(SNAKES) if letters[snake] == ANEW}
    moved = [MOVES.find(letter.lower()) for letter in letters]
    if after["directions"] != moved:
        change["directions"] = after["directions"]
    if after["beans"] != before["beans"]:
        change["beans"] = after["beans"]
    # The last move of a snake that died: on a reversal it was drawn, and nobody wrote down which one it was.
    lunges = {snake: _last_move(before["directions"][snake], actions and actions[snake]) for snake in died}
    return change | {
        key: of for key, of in (("bodies", bodies), ("ate", ate), ("died", died), ("lunges", lunges)) if of
    }


def _letter(before: list[list[int]], after: list[list[int]]) -> str:
    if before and after:
        grew = len(after) > len(before)
        if after[1:] == (before if grew else before[:-1]):
            rows, columns = (after[0][0] - before[0][0]) % ROWS, (after[0][1] - before[0][1]) % COLUMNS
            way = {(ROWS - 1, 0): 0, (1, 0): 1, (0, COLUMNS - 1): 2, (0, 1): 3}.get((rows, columns))
            if way is not None:
                return MOVES[way].upper() if grew else MOVES[way]
    return ANEW


def _last_move(direction: int, action: int | None) -> int:
    return direction if action is None or action == direction ^ 1 else action
