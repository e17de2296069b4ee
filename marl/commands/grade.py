"""The command `grade`: a folder of submissions, each measured against the same opponents, becomes a table of points."""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.analysis.points import PointsTable, read_points
from marl.analysis.spreadsheet import write_spreadsheet
from marl.analysis.tables import print_rows
from marl.cli.arguments import (
    add_seed_flag,
    add_submission_flags,
    choose_seed,
    new_file,
    positive_int,
    submission_options,
)
from marl.cli.invocation import command
from marl.cli.progress_bar import ProgressBar
from marl.errors import UserError
from marl.storage.run_names import player_names

if TYPE_CHECKING:
    from opponents.league_entries import Entry
    from opponents.players import Player
    from opponents.results import Results
    from opponents.round_robin import Conduct

MATCHES = 20
AGAINST = ["level1", "level2", "level3"]


@dataclass(frozen=True)
class Grade:
    """One line of the table."""

    name: str
    points: float
    remarks: str = ""  # why it does not load, or what went wrong in its matches
    conduct: "Conduct | None" = None  # None: it does not load
    results: dict[str, "Results"] = field(default_factory=dict)  # by opponent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Every submission.py, exported team, run and checkpoint in the subfolders of DIR is graded, under its folder's "
        "name.\nOne that cannot be loaded gets a line with the cause and no points. Home is red in half of the matches."
        "\nWithout --points: 10 points for a file that loads, 10 for no error and no forfeit, and against each opponent"
        "\n5 from 25 % of the matches won, 10 from 50 %, 15 from 75 %, 20 from 90 %. A file of points:\n\n"
        "  loads: 10\n  clean: 10\n  won:\n    level1: {0.5: 10, 0.9: 20}\n    each: {0.25: 5, 0.5: 20}"
    )
    parser.add_argument(
        "dir", nargs="?", type=Path, metavar="DIR", help="the folder with a subfolder for each submission"
    )
    parser.add_argument(
        "--against",
        type=player_names,
        default=AGAINST,
        metavar="A,B,C",
        help=f"the opponents, named as for eval (default: {','.join(AGAINST)})",
    )
    parser.add_argument(
        "--matches", type=positive_int, default=MATCHES, metavar="N", help=f"against each opponent (default: {MATCHES})"
    )
    parser.add_argument(
        "--points", type=Path, metavar="FILE", help="what there are points for, a YAML file (see below)"
    )
    parser.add_argument(
        "--out", type=new_file, metavar="FILE", help="write the table to a CSV file, after each submission"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    add_seed_flag(parser)
    add_submission_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.dir is None:
        raise UserError(f"grade needs a folder of submissions, like {command('grade', 'homework')}")
    from arena.files import check_writable
    from marl.commands.player_folders import entries_of
    from marl.planning.planned_player import load_player
    from opponents.league_entries import load_submission
    from opponents.match import open_player

    args.against = list(dict.fromkeys(args.against))
    table = read_points(args.points, args.against) if args.points else PointsTable()
    entries = entries_of([], [args.dir])
    if args.out:
        check_writable(args.out)
    seed = choose_seed(args.seed, [*args.against, *(entry.name for entry in entries)])
    grades: list[Grade] = []
    with ExitStack() as opened, ProgressBar("grade") as bar:
        opponents = {name: open_player(name, opened, load_player, submission_options(args)) for name in args.against}
        for player in opponents.values():
            load_submission(player)
        for number, entry in enumerate(entries):
            bar.title = entry.label or entry.name

            def show(share: float, number: int = number) -> None:
                bar.show((number + share) / len(entries))

            grades.append(_grade(entry, opponents, args, seed, table, show))
            if args.out:
                write_spreadsheet(args.out, _columns(args.against), [_row(grade) for grade in grades])
    if args.json:
        print(json.dumps(_document(grades, args.matches, seed, table.most(args.against)), indent=2, ensure_ascii=False))
    else:
        _print_grades(grades, args, seed, table.most(args.against))
    return 0


def _grade(
    entry: "Entry",
    opponents: dict[str, "Player"],
    args: argparse.Namespace,
    seed: int,
    table: PointsTable,
    show: Callable[[float], None],
) -> Grade:
    """Play the matches of one submission."""
    from marl.planning.planned_player import load_player
    from opponents.league_entries import BrokenEntry, open_entry
    from opponents.match import play
    from opponents.round_robin import conduct_of
    from opponents.submission import Submission

    with ExitStack() as opened:
        player = open_entry(entry, opened, load_player, submission_options(args))
        if isinstance(player, BrokenEntry):
            return Grade(player.label, 0.0, player.cause)
        results: dict[str, Results] = {}
        for name, opponent in opponents.items():

            def progress(share: float) -> None:
                show((len(results) + share) / len(opponents))

            results[name] = play(player, opponent, args.matches, seed=seed, progress=progress)
        conduct = conduct_of(player, sum(each.home_forfeits for each in results.values()))
        is_clean = not (conduct.errors or conduct.forfeits)
        points = table.points(is_clean, {name: each.win_rate for name, each in results.items()})
        problems = player.problems if isinstance(player, Submission) else []
        remarks = "; ".join(line.removeprefix(f"{player.name}: ") for line in problems)
        return Grade(player.name, points, remarks, conduct, results)


def _columns(against: Sequence[str]) -> list[str]:
    rates = [f"{name} {what}" for name in against for what in ("won", "low", "high")]
    return ["name", "points", "loads", "errors", "forfeits", "mean_ms", "longest_ms", *rates, "remarks"]


def _row(grade: Grade) -> dict[str, Any]:
    row: dict[str, Any] = {"name": grade.name, "points": grade.points, "remarks": grade.remarks}
    row["loads"] = "no" if grade.conduct is None else "yes"
    row |= {} if grade.conduct is None else asdict(grade.conduct)
    for name, of in grade.results.items():
        row |= {f"{name} won": of.win_rate, f"{name} low": of.win_rate_low, f"{name} high": of.win_rate_high}
    return row


def _document(grades: Sequence[Grade], matches: int, seed: int, most: float) -> dict[str, Any]:
    def about(grade: Grade) -> dict[str, Any]:
        conduct = {} if grade.conduct is None else asdict(grade.conduct)
        loads = {"name": grade.name, "points": grade.points, "loads": grade.conduct is not None}
        pairs = [each.as_dict() for each in grade.results.values()]
        return loads | conduct | {"remarks": grade.remarks, "pairs": pairs}

    return {"matches": matches, "seed": seed, "most_points": most, "grades": [about(grade) for grade in grades]}


def _print_grades(grades: Sequence[Grade], args: argparse.Namespace, seed: int, most: float) -> None:
    """The best first; a column per opponent with the matches won in percent and their 95 % interval."""
    print(f"matches against each opponent: {args.matches:,}, seed {seed}; points: {most:g} at most")
    print("won: in percent, with 95 % interval; time of a move: CPU time\n")
    rows = [("name", "points", "errors", "forfeits", "ms a move", "longest", *args.against)]
    for grade in sorted(grades, key=lambda grade: -grade.points):
        if grade.conduct is None:
            rows.append((grade.name, f"{grade.points:g}", *["-"] * (len(rows[0]) - 2)))
            continue
        conduct = grade.conduct
        times = ("-" if ms is None else f"{ms:.1f}" for ms in (conduct.mean_ms, conduct.longest_ms))
        won = map(_won, grade.results.values())
        rows.append((grade.name, f"{grade.points:g}", str(conduct.errors), str(conduct.forfeits), *times, *won))
    print_rows(rows, right=tuple(range(1, len(rows[0]))))
    remarks = [(f"  {grade.name}", grade.remarks) for grade in grades if grade.remarks]
    if remarks:
        print("\nremarks:")
        print_rows(remarks)
    if args.out:
        print(f"\ntable: {args.out}")


def _won(of: "Results") -> str:
    rate, low, high = (f"{100 * share:.0f}" for share in (of.win_rate, of.win_rate_low, of.win_rate_high))
    return f"{rate} ({low}-{high})"
