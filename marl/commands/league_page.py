"""A league as one HTML page without network and server: points of all pairs, ratings, and a match of every pair."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.render.page import embedded, filled, page
from opponents.intervals import wilson

if TYPE_CHECKING:
    from opponents.league import Table
    from opponents.results import Results

TEMPLATE = Path(__file__).with_name("league_page.html")
ELEMENTS = TEMPLATE.with_name("page_elements.js")
CHECKPOINT = re.compile(r"(.+)/checkpoints/episode_(\d+)")


def league_page(table: "Table", pairs: Sequence["Results"]) -> str:
    """The text of the page. `pairs` are the results of all pairs of the table, with replays."""
    matches: list[Any] = []
    shown: dict[tuple[str, str], int] = {}  # (row, column): index into matches
    for results in pairs:
        for row, column, which in ((results.home, results.away, "best"), (results.away, results.home, "worst")):
            shown[row, column] = len(matches)
            matches.append(results.replays[which])
    order, points = table.order(), table.points

    def cell(i: int, j: int) -> dict[str, Any] | None:
        if i == j:
            return None
        results = {"wins": int(table.wins[i, j]), "draws": int(table.draws[i, j]), "losses": int(table.wins[j, i])}
        # Half points count as half matches; the interval of a rate with draws is at most as wide.
        low, high = wilson(float(table.wins[i, j] + table.draws[i, j] / 2), table.matches)
        about = {"points": float(points[i, j]), "low": low, "high": high}
        return results | about | {"match": shown[table.names[i], table.names[j]]}

    data = {
        "matches": table.matches,
        "players": [_player(table, i) for i in order],
        "cells": [[cell(i, j) for j in order] for i in order],
    }
    return page(
        matches, extra=filled(TEMPLATE, {"data": embedded(data), "elements": ELEMENTS.read_text(encoding="utf-8")})
    )


def _player(table: "Table", i: int) -> dict[str, Any]:
    """Name and rating; for a checkpoint also its run and its episode."""
    name, rating, margin = table.names[i], float(table.ratings[i]), float(table.margins[i])
    found = CHECKPOINT.fullmatch(name)
    run = {"run": found[1] if found else None, "episode": int(found[2]) if found else None}
    return {"name": name, "rating": rating, "rating_low": rating - margin, "rating_high": rating + margin, **run}
