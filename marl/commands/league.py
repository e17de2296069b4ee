"""The command `league`: print or draw a league. The matches and ratings are computed in opponents/round_robin.py."""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.analysis.spreadsheet import league_rows, write_spreadsheet
from marl.analysis.tables import display_width, padded, print_rows
from marl.cli.arguments import (
    add_device_flag,
    add_seed_flag,
    add_stop_flag,
    add_submission_flags,
    choose_seed,
    error_rates_text,
    new_file,
    new_file_ending,
    new_folder,
    positive,
    positive_int,
    submission_options,
)
from marl.cli.invocation import command
from marl.cli.progress_bar import ProgressBar
from marl.errors import UserError
from marl.storage.run_names import player_names

if TYPE_CHECKING:
    from opponents.league_entries import BrokenEntry, Entry
    from opponents.results import Results
    from opponents.round_robin import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"Players are named as for eval ({command('eval', '--list')}). Points: 1 for a win, half for a draw.\n"
        "Ratings are Bradley-Terry on the scale of Elo (400 apart: 10 of 11 points), mean 1500, with 95 % intervals.\n"
        "--stop_when_decided calls a team better that is not in at most 2.5 % of the cases, home and away alike."
    )
    parser.add_argument(
        "--players",
        type=player_names,
        nargs="+",
        metavar="A,B,C",
        help="who takes part, also folder/*; development, held_out: the halves of the field; probes: all probes but "
        "those of held_out (default: the ladder and the shipped teams)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="every submission.py, exported team, run and checkpoint in the subfolders takes part, labelled by its "
        "folder's name; broken ones are listed and do not play; may be given several times",
    )
    parser.add_argument(
        "--matches",
        type=positive_int,
        metavar="N",
        help="per pair (default: 1000; with submissions or players that plan as many as take about 10 minutes)",
    )
    parser.add_argument(
        "--minutes", type=positive, metavar="N", help="play as much as fits into so many minutes, all pairs evenly"
    )
    add_stop_flag(parser)
    add_seed_flag(parser)
    add_device_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument(
        "--png", type=new_file_ending(".png"), metavar="FILE", help="also draw the table into a PNG file"
    )
    parser.add_argument(
        "--html", type=new_file, metavar="FILE", help="also write a page: the table, matches to watch, errors"
    )
    parser.add_argument(
        "--daily",
        type=new_folder,
        metavar="DIR",
        help="also write today's page and JSON file into DIR, with the ratings of the days before; DIR/index.html is "
        "the newest page",
    )
    parser.add_argument(
        "--csv",
        type=new_file,
        metavar="FILE",
        help="also write a line for each player: rating, points, errors, forfeits, time per move",
    )
    add_submission_flags(parser)


def run(args: argparse.Namespace) -> int:
    from arena.files import write_user_file
    from arena.replay import today
    from marl.analysis.pages import MOST_PLAYERS_WITH_CELLS, league_page
    from marl.analysis.rating_days import Day, read_days, write_day
    from marl.analysis.telling import TellingMatches, examples_per_pair
    from marl.commands.league_plan import plan_matches
    from marl.planning.planned_player import load_player
    from opponents.league_entries import open_entries
    from opponents.round_robin import play_round_robin

    begun = time.monotonic()
    entries = _entries(args)
    pairs: list[Results] = []

    seed = choose_seed(args.seed, [entry.name for entry in entries])
    telling = TellingMatches(seed) if args.html or args.daily else None
    date = today()
    days = read_days(args.daily, before=date) if args.daily else []

    def progress(results: "Results") -> None:
        if telling is not None:
            telling.add(results)
            pairs.append(replace(results, examples=None))
        if sys.stderr.isatty():
            _print_pair(results)

    with ExitStack() as opened, ProgressBar("league") as bar:
        players, broken = open_entries(entries, opened, load_player, submission_options(args))
        if len(players) < 2:
            raise UserError(f"a league needs at least two players, got {len(players)}{_named_causes(broken)}")
        plan = plan_matches(players, args.matches, args.minutes, args.device, args.stop_when_decided)
        if plan.text and not args.json:
            print(plan.text, file=sys.stderr, flush=True)

        def turn_progress(home: str, away: str, fraction: float) -> None:
            bar.title = f"{home} - {away}"
            bar.show(fraction)

        seconds = None if args.minutes is None else max(0.0, 60 * args.minutes - (time.monotonic() - begun))
        record = telling is not None and len(players) <= MOST_PLAYERS_WITH_CELLS
        settings = (plan.matches, args.device, seed, progress, load_player, record, turn_progress)
        examples = examples_per_pair(len(players)) if telling is not None else 0
        table = play_round_robin(
            players, *settings, stop_when_decided=args.stop_when_decided, seconds=seconds, examples=examples
        )
    if args.png:
        from marl.pictures.canvas import save_png
        from marl.pictures.league_table import draw

        save_png(args.png, draw(table))
    document = _document(table, seed) | {
        "broken": [asdict(each) for each in broken],
        "estimated_seconds": plan.seconds,
    }
    if telling is not None:
        if args.daily:
            days.append(Day(date, dict(zip(table.names, map(float, table.ratings), strict=True)), None))
        page = league_page(table, pairs, telling, broken, days)
        if args.html:
            write_user_file(args.html, page)
        if args.daily:
            write_day(args.daily, date, page, document)
    if args.csv:
        columns, rows = league_rows(table)
        write_spreadsheet(args.csv, columns, rows)
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        print_table(table, seed)
        _print_more(table, broken)
        for what, path in (("picture", args.png), ("page", args.html), ("pages", args.daily), ("CSV", args.csv)):
            if path:
                print(f"\n{what}: {path}")
    for line in table.problems:
        print(line, file=sys.stderr)
    return 0


def _entries(args: argparse.Namespace) -> list["Entry"]:
    """Who is to take part."""
    from marl.commands.player_folders import entries_of
    from marl.commands.player_groups import expand_groups
    from opponents.players import listing

    words = args.players or ([] if args.folder else [[name for name, _ in listing()]])
    names = expand_groups(list(chain(*words)))
    return entries_of(names, args.folder, are_several_words=len(words) > 1)


def _named_causes(broken: Sequence["BrokenEntry"]) -> str:
    return "".join(f"; {each.label}: {each.cause}" for each in broken)


def _document(table: "Table", seed: int) -> dict[str, Any]:
    from opponents.league_decision import AWAY, ERROR_RATES, HOME

    order, points, better = table.order(), table.points, table.better
    return {
        "matches": table.matches,
        "seed": seed,
        "players": [
            {
                "name": table.names[i],
                "rating": float(table.ratings[i]),
                "rating_low": float(table.ratings[i] - table.margins[i]),
                "rating_high": float(table.ratings[i] + table.margins[i]),
                **asdict(table.conduct[i]),
            }
            for i in order
        ],
        "pairs": [
            {
                "home": table.names[i],
                "away": table.names[j],
                "matches": int(table.played[i, j]),
                "wins": int(table.wins[i, j]),
                "draws": int(table.draws[i, j]),
                "losses": int(table.wins[j, i]),
                "points": float(points[i, j]),
                **({} if better is None else {"decided": HOME if better[i, j] else AWAY if better[j, i] else None}),
            }
            for at, i in enumerate(order)
            for j in order[at + 1 :]
        ],
    } | ({} if better is None else {"error_rates": ERROR_RATES})


def print_table(table: "Table", seed: int) -> None:
    """Print the table, best player first."""
    order = table.order()
    points = table.points
    width = max(display_width(name) for name in (*table.names, "player"))
    print(f"{table.matches_per_pair} matches per pair, seed {seed}; points that row took from column, in percent\n")
    heading = "".join(f"{at:7}" for at in range(1, len(order) + 1))
    print(f"{'player':>{width + 4}}  rating  95 % {heading}")
    for at, i in enumerate(order, start=1):
        cells = "".join("      -" if math.isnan(points[i, j]) else f"{100 * points[i, j]:7.1f}" for j in order)
        name = padded(table.names[i], width, right=True)
        print(f"{at:3} {name}  {table.ratings[i]:6.0f} ±{table.margins[i]:4.0f} {cells}")


def _print_more(table: "Table", broken: Sequence["BrokenEntry"]) -> None:
    """What the test has decided, how submissions behaved, and who could not play."""
    if table.better is not None:
        decided, pairs = int(table.better.sum()), len(table.names) * (len(table.names) - 1) // 2
        print(f"\ndecided who is better: {decided} of {pairs} pairs; {error_rates_text()}")
    order = [i for i in table.order() if table.conduct[i].mean_ms is not None or table.conduct[i].errors]
    if order:
        print()
        rows: list[tuple[str, ...]] = [("submission", "errors", "forfeits", "ms a move", "longest")]
        for i in order:
            conduct = table.conduct[i]
            times = ("-" if ms is None else f"{ms:.1f}" for ms in (conduct.mean_ms, conduct.longest_ms))
            rows.append((table.names[i], f"{conduct.errors:,}", f"{conduct.forfeits:,}", *times))
        print_rows(rows, right=(1, 2, 3, 4))
    if broken:
        print("\nbroken, without matches:")
        print_rows([(f"  {each.label}", each.cause) for each in broken])


def _print_pair(results: "Results") -> None:
    print(f"{results.home} - {results.away}: {results.points:.1%} of the points", file=sys.stderr, flush=True)
