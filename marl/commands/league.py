"""The command `league`: print or draw a league. The matches and ratings are computed in opponents/league.py."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.analysis.tables import display_width, padded, print_rows
from marl.arguments import (
    add_device_flag,
    add_seed_flag,
    add_submission_flags,
    choose_seed,
    new_file,
    new_file_ending,
    submission_options,
)
from marl.errors import UserError
from marl.invocation import command
from marl.progress_bar import ProgressBar
from marl.storage.run_names import player_names

if TYPE_CHECKING:
    from opponents.league import Table
    from opponents.league_entries import Broken, Entry
    from opponents.results import Results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"Players are named as for eval ({command('eval', '--list')}). Points: 1 for a win, half for a draw.\n"
        "Ratings are Bradley-Terry on the scale of Elo (400 apart: 10 of 11 points), mean 1500, with 95 % intervals."
    )
    parser.add_argument(
        "--players",
        type=player_names,
        nargs="+",
        metavar="A,B,C",
        help="who takes part, also folder/*; odd: all odd teams (default: the ladder and the shipped teams)",
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
    parser.add_argument("--matches", type=int, default=1000, metavar="N", help="per pair (default: 1000)")
    add_seed_flag(parser)
    add_device_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument(
        "--png", type=new_file_ending(".png"), metavar="FILE", help="also draw the table into a PNG file"
    )
    parser.add_argument(
        "--html", type=new_file, metavar="FILE", help="also write a page: the table, and a match behind every cell"
    )
    add_submission_flags(parser)


def run(args: argparse.Namespace) -> int:
    from marl.planning.planned_player import load_player
    from opponents.league import league
    from opponents.league_entries import open_entries

    entries = _entries(args)
    pairs: list[Results] = []

    def progress(results: "Results") -> None:
        if args.html:
            pairs.append(results)
        if sys.stderr.isatty():
            _print_pair(results)

    record = args.html is not None
    seed = choose_seed(args.seed, [entry.name for entry in entries])
    with ExitStack() as opened, ProgressBar("league") as bar:
        players, broken = open_entries(entries, opened, load_player, submission_options(args))
        if len(players) < 2:
            raise UserError(f"a league needs at least two players, got {len(players)}{_named_causes(broken)}")

        def turn_progress(home: str, away: str, share: float) -> None:
            bar.title = f"{home} - {away}"
            bar.show(share)

        settings = (args.matches, args.device, seed, progress, load_player, record)
        table = league(players, *settings, turn_progress)
    if args.png:
        from marl.pictures.canvas import save_png
        from marl.pictures.league_table import draw

        save_png(args.png, draw(table))
    if args.html:
        from arena.files import write_user_file
        from marl.analysis.pages import league_page

        write_user_file(args.html, league_page(table, pairs))
    if args.json:
        print(json.dumps(_document(table, seed) | {"broken": [asdict(each) for each in broken]}, indent=2))
    else:
        print_table(table, seed)
        if broken:
            print("\nbroken, without matches:")
            print_rows([(f"  {each.label}", each.cause) for each in broken])
        for what, path in (("picture", args.png), ("page", args.html)):
            if path:
                print(f"\n{what}: {path}")
    for line in table.problems:
        print(line, file=sys.stderr)
    return 0


def _entries(args: argparse.Namespace) -> list["Entry"]:
    """Who is to take part."""
    from marl.commands.player_folders import entries_of
    from opponents.players import listing, odd_listing

    groups = {"odd": [name for name, _ in odd_listing()]}
    words = args.players or ([] if args.folder else [[name for name, _ in listing()]])
    names = [each for name in chain(*words) for each in groups.get(name, [name])]
    return entries_of(names, args.folder, are_several_words=len(words) > 1)


def _named_causes(broken: Sequence["Broken"]) -> str:
    return "".join(f"; {each.label}: {each.cause}" for each in broken)


def _document(table: "Table", seed: int) -> dict[str, Any]:
    order = table.order()
    points = table.points
    return {
        "matches": table.matches,
        "seed": seed,
        "players": [
            {
                "name": table.names[i],
                "rating": float(table.ratings[i]),
                "rating_low": float(table.ratings[i] - table.margins[i]),
                "rating_high": float(table.ratings[i] + table.margins[i]),
            }
            for i in order
        ],
        "pairs": [
            {
                "home": table.names[i],
                "away": table.names[j],
                "wins": int(table.wins[i, j]),
                "draws": int(table.draws[i, j]),
                "losses": int(table.wins[j, i]),
                "points": float(points[i, j]),
            }
            for at, i in enumerate(order)
            for j in order[at + 1 :]
        ],
    }


def print_table(table: "Table", seed: int) -> None:
    """Print the table, best player first."""
    order = table.order()
    points = table.points
    width = max(display_width(name) for name in (*table.names, "player"))
    print(f"{table.matches:,} matches per pair, seed {seed}; points that row took from column, in percent\n")
    heading = "".join(f"{at:7}" for at in range(1, len(order) + 1))
    print(f"{'player':>{width + 4}}  rating  95 % {heading}")
    for at, i in enumerate(order, start=1):
        cells = "".join("      -" if math.isnan(points[i, j]) else f"{100 * points[i, j]:7.1f}" for j in order)
        name = padded(table.names[i], width, right=True)
        print(f"{at:3} {name}  {table.ratings[i]:6.0f} ±{table.margins[i]:4.0f} {cells}")


def _print_pair(results: "Results") -> None:
    print(f"{results.home} - {results.away}: {results.points:.1%} of the points", file=sys.stderr, flush=True)
