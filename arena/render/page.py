"""The replay page: matches as one HTML file that needs no network, no server and no other file.

The page stores the start of each match and the changes of every turn. From these its script computes the same states
that Python has. Texts that come with a match (names) are data of the page, never part of its markup.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.jidi_log import JidiLog
from arena.render import theme
from arena.render.events import events, timeline_deaths
from arena.render.timeline import recorded_timeline
from arena.replay import Replay
from arena.rules import COLUMNS, DOWN, LEFT, RIGHT, ROWS, SNAKES, START_LENGTH, TURNS, UP

FOLDER = Path(__file__).parent
SCRIPTS = ("board", "language", "policy_arrows", "scrub_bar", "death_notice", "viewer")
MOVE_LETTERS = "udlr"  # by direction; a capital letter means that the snake also grew
PROB_DIGITS = 3
NEW_BODY = "."  # instead of a letter: the body does not follow from the one before by a move


def page(matches: Sequence[Replay | JidiLog], turn: int = 0, extra: str = "") -> str:
    """The text of a page that shows these matches, opened at a turn.

    `extra` is markup on top of the page. A page with it shows no list of matches: its markup lets the user choose one.
    """
    data = {"look": look(), "matches": [timeline_data(match) for match in matches], "turn": turn, "extra": bool(extra)}
    data["chinese"] = json.loads((FOLDER / "viewer_chinese.json").read_text("utf-8"))
    board, *viewer = ((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    return filled("viewer.html", {"extra": extra, "data": embedded(data), "board": board, "viewer": "".join(viewer)})


def filled(template: str | Path, parts: dict[str, str]) -> str:
    """A template of this folder (or at a path) with a part in place of every slot `/*part NAME*/`.

    Known to all templates: `style` (page.css) and the fragments of page_fragments.html. Slots inside a part are not
    filled: a part may hold texts of users.
    """
    text = (FOLDER / template).read_text("utf-8")
    parts = {"style": (FOLDER / "page.css").read_text("utf-8"), **_fragments(), **parts}
    return re.sub(r"/\*part (\w+)\*/", lambda slot: parts[slot[1]], text)


def _fragments() -> dict[str, str]:
    """The markup that several pages share, by name."""
    text = (FOLDER / "page_fragments.html").read_text("utf-8")
    _, *pieces = re.split(r"<!--fragment (\w+)-->\n", text)
    return {name: markup.removesuffix("\n") for name, markup in zip(pieces[::2], pieces[1::2], strict=True)}


def embedded(data: Any) -> str:
    """JSON for a script element: no text in it can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def language() -> str:
    """The script that lets a page speak Chinese and English."""
    return (FOLDER / "language.js").read_text("utf-8")


def look() -> dict[str, Any]:
    """Size of the board, and the colours and sizes that the page draws with: those of theme.py."""
    radii = {"head": theme.HEAD_RADIUS, "neck": theme.NECK_RADIUS, "tail": theme.TAIL_RADIUS, "bean": theme.BEAN_RADIUS}
    colours = {
        "snakes": theme.SNAKE_COLOURS,
        "teams": theme.TEAM_COLOURS,
        "bean": theme.BEAN_COLOUR,
        "board": theme.BOARD_COLOURS,
        "strip": theme.STRIP_COLOUR,
        "text": theme.TEXT_COLOUR,
        "eye": theme.EYE_COLOUR,
        "pupil": theme.PUPIL_COLOUR,
    }
    sizes = {"rows": ROWS, "columns": COLUMNS, "turns": TURNS, "startLength": START_LENGTH}
    marks = {"rings": theme.MARKS, "alpha": theme.MARK_ALPHA}
    return {**sizes, "radii": radii, "tailShade": theme.TAIL_SHADE, "marks": marks, **colours}


def timeline_data(match: Replay | JidiLog) -> dict[str, Any]:
    """The timeline of a match as the page stores it: the players, the start, and the changes of every turn."""
    states, timeline = match.states(), recorded_timeline(match)
    actions = match.actions() if isinstance(match, Replay) else match.actions
    lines = match.turns if isinstance(match, Replay) else [None] * len(actions)
    steps = zip(states[:-1], states[1:], actions, lines, strict=True)
    about = {}
    if isinstance(match, Replay):  # numbers as texts: they may be too large for JavaScript
        about = {"seed": str(match.seed), "match": str(match.match), "date": match.date}
    return {
        "red": match.red,
        "blue": match.blue,
        **about,
        "start": states[0],
        "turns": [_change(*step) for step in steps],
        "events": [event._asdict() for event in events(timeline)],
        "boxed": [
            {"snake": death.snake, "since": death.boxed_since, "turn": death.turn}
            for death in timeline_deaths(timeline)
            if death.boxed_since is not None
        ],
    }


def _change(
    before: dict[str, Any], after: dict[str, Any], actions: list[int] | None, line: dict[str, Any] | None
) -> dict[str, Any]:
    """The changes of one turn: six letters for the moves, and whatever does not follow from them."""
    letters = [_letter(before["snakes"][snake], after["snakes"][snake]) for snake in range(SNAKES)]
    if line is not None:
        died, ate = line.get("died", []), line.get("ate", [])
    else:  # a competition log does not record deaths and meals
        died = [snake for snake in range(SNAKES) if letters[snake] == NEW_BODY and before["snakes"][snake]]
        ate = [snake for snake in range(SNAKES) if letters[snake].isupper()]
    for snake in died:  # a respawn is never a move, even where the new body looks like one
        letters[snake] = NEW_BODY
    change: dict[str, Any] = {"moves": "".join(letters)}
    if line is not None and "probs" in line:  # of the policies that chose the moves
        rounded = [None if probs is None else [round(p, PROB_DIGITS) for p in probs] for probs in line["probs"]]
        change |= {"probs": rounded, "values": line.get("values", [None] * SNAKES)}
    bodies = {snake: after["snakes"][snake] for snake in range(SNAKES) if letters[snake] == NEW_BODY}
    moved = [MOVE_LETTERS.find(letter.lower()) for letter in letters]
    if after["directions"] != moved:
        change["directions"] = after["directions"]
    if after["beans"] != before["beans"]:
        change["beans"] = after["beans"]
    # The last move of a snake that died. After a reversal the game drew the move at random; no file records it.
    lunges = {snake: _last_move(before["directions"][snake], actions[snake] if actions else None) for snake in died}
    return change | {
        key: value for key, value in (("bodies", bodies), ("ate", ate), ("died", died), ("lunges", lunges)) if value
    }


def _letter(before: list[list[int]], after: list[list[int]]) -> str:
    """The letter of the move that leads from one body to the next."""
    if before and after:
        grew = len(after) > len(before)
        if after[1:] == (before if grew else before[:-1]):
            rows, columns = (after[0][0] - before[0][0]) % ROWS, (after[0][1] - before[0][1]) % COLUMNS
            move = {(ROWS - 1, 0): UP, (1, 0): DOWN, (0, COLUMNS - 1): LEFT, (0, 1): RIGHT}.get((rows, columns))
            if move is not None:
                return MOVE_LETTERS[move].upper() if grew else MOVE_LETTERS[move]
    return NEW_BODY


def _last_move(direction: int, action: int | None) -> int:
    return direction if action is None or action == direction ^ 1 else action
