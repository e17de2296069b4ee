"""HTML pages without network and server: a report, a league with its matches, and an exploitation."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.render.page import embedded, filled, language, page
from marl.analysis.rating_days import Day, days_data
from marl.cli.wording import chinese_duration, duration
from opponents.intervals import wilson

if TYPE_CHECKING:
    from arena.replay import Replay
    from marl.analysis.exploitability import CurvePoint
    from marl.analysis.telling import TellingMatch, TellingMatches
    from opponents.league_entries import BrokenEntry
    from opponents.results import Results
    from opponents.round_robin import Table

HERE = Path(__file__).parent
SCRIPTS = {"elements": "page_elements", "days": "rating_days"}
MOST_PLAYERS_WITH_CELLS = 20  # of a league whose cells have a match each: 380 matches of some 15 kB
CHECKPOINT = re.compile(r"(.+)/checkpoints/episode_(\d+)")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 240, 48, 14, 28  # of an exploitation's curve, in pixels
EXPLOIT_STYLE = """<style>
  #exploit { max-width: 800px; margin: 0 auto; padding: 20px 16px 6px; }
  #exploit h1 { margin: 0; font-size: 24px; }
  #exploit h2 { margin: 24px 0 0; font-size: 18px; }
  #exploit p { margin: 4px 0 14px; color: #aeb7c8; overflow-wrap: anywhere; }
  #exploit .wide { overflow-x: auto; }
  #exploit table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
  #exploit th, #exploit td { padding: 3px 20px 3px 0; text-align: right; }
  #exploit th { font-weight: 550; color: #aeb7c8; }
</style>"""


def report_page(document: dict[str, Any]) -> str:
    """Curves, results, probabilities, cross-play: the document of comparison.collect, whose texts are no markup."""
    return _filled("report_page.html", document)


def league_page(
    table: "Table",
    pairs: Sequence["Results"],
    telling: "TellingMatches",
    broken: Sequence["BrokenEntry"] = (),
    days: Sequence[Day] = (),
) -> str:
    """Points of all pairs, ratings, conduct, and matches to watch: of every pair whose results have replays (`pairs`),
    and the most telling ones of each team. `broken`: those that could not play. `days`: today is the last one."""
    matches = _Matches()
    shown: dict[tuple[str, str], int] = {}  # (row, column): index into matches
    for results in pairs:
        for row, column, which in ((results.home, results.away, "best"), (results.away, results.home, "worst")):
            if which in results.replays:
                shown[row, column] = matches.index(results.replays[which])
    order, points = table.order(), table.points

    def cell(i: int, j: int) -> dict[str, Any] | None:
        if i == j:
            return None
        results = {"wins": int(table.wins[i, j]), "draws": int(table.draws[i, j]), "losses": int(table.wins[j, i])}
        # Half points count as half matches; the interval of a rate with draws is at most as wide.
        low, high = wilson(float(table.wins[i, j] + table.draws[i, j] / 2), int(table.played[i, j]))
        about = {"points": float(points[i, j]), "low": low, "high": high}
        return results | about | {"match": shown.get((table.names[i], table.names[j]))}

    def told(match: "TellingMatch") -> dict[str, Any]:
        return {
            "match": matches.index(match.replay),
            "loser": match.loser,
            "winner": match.winner,
            "scores": match.scores,
            "turn": match.turn,
            "leads": match.leads,
        }

    data = {
        "matches": table.matches,
        "matches_per_pair": table.matches_per_pair,
        "players": [_player(table, i) for i in order],
        "cells": [[cell(i, j) for j in order] for i in order],
        "telling": [[told(match) for match in telling.of(table.names[i])] for i in order],
        "broken": [{"name": each.label, "cause": each.cause} for each in broken],
        "days": days_data(days),
    }
    return page(matches.found, extra=_filled("league_page.html", data))


class _Matches:
    """The matches of a page, each of them once."""

    def __init__(self) -> None:
        self.found: list[Replay] = []
        self._places: dict[tuple[int, int, str, str], int] = {}

    def index(self, replay: "Replay") -> int:
        key = replay.seed, replay.match, replay.red, replay.blue
        if key not in self._places:
            self._places[key] = len(self.found)
            self.found.append(replay)
        return self._places[key]


def exploit_page(
    title: tuple[str, str], conclusion: tuple[str, str], curve: Sequence["CurvePoint"], replay: "Replay"
) -> str:
    """The curve of an exploitation, its table, and the worst match. Title and conclusion: in English and in Chinese."""
    rows = "".join(
        f"<tr><td>{duration(p.seconds)}<td>{p.env_steps:,.0f}<td>{p.kept:.1%}"
        f"<td>{p.kept_low:.1%} – {p.kept_high:.1%}<td>{p.kept_least:.1%}"
        for p in curve
    )
    end = curve[-1].seconds
    chinese = {
        **dict((title, conclusion)),
        **{duration(p.seconds): chinese_duration(p.seconds) for p in curve},
        f"{duration(end)} of training": f"训练 {chinese_duration(end)}",
        **json.loads((HERE / "exploit_page_chinese.json").read_text(encoding="utf-8")),
    }
    markup = (
        f'{EXPLOIT_STYLE}<section id="exploit"><h1>{escape(title[0])}</h1><p>{escape(conclusion[0])}</p>{_svg(curve)}'
        "<p>Line: mean over the seeds, with its 95 % interval. Dashed: the least of the seeds.</p>"
        '<div class="wide"><table><tr><th>training<th>env steps<th>points kept<th>95 % interval<th>least of the seeds'
        f"{rows}</table></div><h2>The worst match</h2></section>"
        "<script>addEventListener('DOMContentLoaded', () =>"
        f" snakes.language.learn({embedded(chinese)}, document.querySelector('#exploit')));</script>"
    )
    return page([replay], extra=markup)


def _filled(template: str, data: dict[str, Any]) -> str:
    scripts = {name: (HERE / f"{file}.js").read_text("utf-8") for name, file in SCRIPTS.items()}
    chinese = json.loads((HERE / f"{Path(template).stem}_chinese.json").read_text(encoding="utf-8"))
    parts = {"data": embedded(data), "language": language(), "chinese": embedded(chinese)}
    return filled(HERE / template, parts | scripts)


def _player(table: "Table", i: int) -> dict[str, Any]:
    """Name and rating; for a checkpoint also its run and its episode."""
    name, rating, margin = table.names[i], float(table.ratings[i]), float(table.margins[i])
    found = CHECKPOINT.fullmatch(name)
    run = {"run": found[1] if found else None, "episode": int(found[2]) if found else None}
    about = {"name": name, "rating": rating, "rating_low": rating - margin, "rating_high": rating + margin, **run}
    return about | {"conduct": asdict(table.conduct[i]) if table.conduct else None}


def _svg(curve: Sequence["CurvePoint"]) -> str:
    def place(share: float, kept: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - 8) * share:.1f},{TOP + (HEIGHT - BOTTOM - TOP) * (1 - kept):.1f}"

    band = [place(p.share, p.kept_high) for p in curve] + [place(p.share, p.kept_low) for p in reversed(curve)]
    line, least = " ".join(place(p.share, p.kept) for p in curve), " ".join(place(p.share, p.kept_least) for p in curve)
    grid = "".join(
        f'<polyline points="{place(0, kept)} {place(1, kept)}" stroke="#888" stroke-width=".5"/>'
        f'<text x="{LEFT - 6}" y="{place(0, kept).partition(",")[2]}" dy="4" text-anchor="end">{kept:.0%}</text>'
        for kept in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width:{WIDTH}px" font-size="12" fill="currentColor" '
        f'role="img" aria-label="points kept by compute of the exploiters">{grid}'
        f'<polygon points="{" ".join(band)}" fill="#0072b2" opacity=".2"/>'
        f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="2"/>'
        f'<polyline points="{least}" fill="none" stroke="#d55e00" stroke-width="1.5" stroke-dasharray="5 4"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{duration(curve[-1].seconds)} of training</text>'
        "</svg>"
    )
