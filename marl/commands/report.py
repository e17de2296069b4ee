"""The command `report`: configurations compared over several seeds, with intervals: tables, page, picture, JSON."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.analysis.tables import amount, print_rows, setting_text, training_time
from marl.cli.arguments import new_file, new_file_ending, positive_int, split_flags
from marl.cli.progress_bar import ProgressBar
from marl.cli.wording import count, in_one_line
from marl.storage.run_folder import all_runs
from marl.storage.run_names import RUNS_DIR, find_named

if TYPE_CHECKING:
    from marl.analysis.groups import RunGroup

WITH_VALUE = ("--html", "--csv", "--json", "--png", "--by", "--cross-play", "--side-by-side", "--device", "--runs-dir")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} RUN ... [flags]"
    parser.epilog = (
        "RUN is a path, a name, a number (run7), `last`, or the common name of the runs of `train --seeds`.\n"
        "Runs that differ only in their seeds are one group, which is named by what differs from the others.\n"
        "Win rates are those of the last evaluation: interquartile mean over the seeds (the quarter at each end left\n"
        "out), with 95 % stratified bootstrap intervals. `all opponents`: the same over the win rates of all seeds\n"
        "against all opponents together, which may lie outside the seeds' plain means. Probability of improvement:\n"
        "that a seed of the row is better than a seed of the column (0.5: equal). Unfinished runs are left out."
    )
    parser.add_argument("--html", type=new_file, metavar="FILE", help="write a page: curves and tables, in one file")
    parser.add_argument(
        "--csv", type=new_file, metavar="FILE", help="write a line for each evaluation of each run by each opponent"
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write the evaluations in marl-eval's layout")
    parser.add_argument(
        "--png", type=new_file_ending(".png"), metavar="FILE", help="draw the learning curves into a PNG file"
    )
    parser.add_argument(
        "--by",
        choices=("episodes", "steps", "seconds"),
        default="steps",
        help="x axis of the picture; steps are env steps (default: steps)",
    )
    parser.add_argument(
        "--cross-play",
        type=positive_int,
        metavar="N",
        help="also play N matches between the final teams of each pair of groups, split over their seeds",
    )
    parser.add_argument(
        "--side-by-side",
        type=positive_int,
        default=1,
        metavar="N",
        help="processes of these matches at a time (default: 1)",
    )
    parser.add_argument("--device", default="auto", metavar="D", help="of these matches: cpu, cuda (default: auto)")
    parser.add_argument("--runs-dir", default=RUNS_DIR, metavar="DIR", help=f"folder of all runs (default: {RUNS_DIR})")


def set_aside(argv: list[str]) -> tuple[list[str], list[str]]:
    """The flags with their values, and the names of the runs."""
    return split_flags(argv, WITH_VALUE)


def run(args: argparse.Namespace) -> int:
    from arena.files import write_user_file
    from marl.analysis.comparison import collect, marl_eval_document, uneven
    from marl.analysis.groups import choose_runs, common_opponents, group_runs
    from marl.analysis.runs import find_runs
    from marl.cli.invocation import command
    from marl.errors import UserError

    if not args.set_aside:
        raise UserError(f"report needs RUN ... (see {command('runs', 'list')})")
    runs, left_out = choose_runs(find_runs(with_seeds(args.set_aside, args.runs_dir), args.runs_dir))
    groups = group_runs(runs)
    opponents = common_opponents(groups)
    for line in left_out:
        _notify(f"left out: {line}")
    document = collect(groups, opponents)
    if args.cross_play:
        document["cross_play"] = _cross_play(groups, args.cross_play, args.device, args.side_by_side)
    _print(document)
    if args.json:
        write_user_file(args.json, json.dumps(marl_eval_document(groups, opponents), indent=2) + "\n")
        if problem := uneven(groups):
            _notify(f"{args.json}: marl-eval needs the same number for all: {problem}")
    if args.html:
        from marl.analysis.pages import report_page

        write_user_file(args.html, report_page(document))
    if args.png:
        _draw(document, args.by, args.png)
    if args.csv:
        from marl.analysis.spreadsheet import REPORT_COLUMNS, report_rows, write_spreadsheet

        write_spreadsheet(args.csv, REPORT_COLUMNS, report_rows(groups, opponents))
    files = (("page", args.html), ("CSV", args.csv), ("picture", args.png), ("marl-eval's JSON", args.json))
    for what, path in files:
        if path:
            print(f"{what}: {path}")
    return 0


def with_seeds(names: Sequence[str], runs_dir: str) -> list[str]:
    """The names, with the runs NAME_seed1, NAME_seed2, ... in place of a NAME that is no run itself."""
    found: list[str] = []
    for name in names:
        seeds = re.compile(re.escape(Path(name).name) + r"_seed(\d+)")
        path = find_named(name, runs_dir)
        siblings = sorted(path.parent.glob(f"{path.name}_seed*")) if path.parent != Path() else all_runs(runs_dir)
        runs = [run for run in siblings if run.is_dir() and seeds.fullmatch(run.name)]
        found += [name] if path.exists() or not runs else map(str, sorted(runs, key=lambda run: _number(run, seeds)))
    return found


def _number(run: Path, pattern: re.Pattern[str]) -> int:
    match = pattern.fullmatch(run.name)
    return int(match[1]) if match else 0


def _cross_play(groups: "Sequence[RunGroup]", matches: int, device: str, side_by_side: int) -> dict[str, Any]:
    from marl.analysis.cross_play import cross_play

    with ProgressBar("cross-play") as bar:
        return cross_play(groups, matches, device, bar.show, side_by_side)


def _draw(document: dict[str, Any], by: str, png: Path) -> None:
    from marl.analysis.curves import Curve, save_curves

    panels: dict[str, list[Curve]] = {}
    for task in document["tasks"]:
        for group in document["groups"]:
            curve, xs = group["curves"][task], group["axes"][by]
            ends = zip(xs, curve["low"], curve["high"], strict=True)
            band = [(x, low, high) for x, low, high in ends if low is not None]
            name = f"{group['name']} ({count(len(group['seeds']), 'seed')})"
            panels.setdefault(task, []).append(Curve(name, list(zip(xs, curve["value"], strict=True)), band))
    save_curves(png, panels, by)


def _print(document: dict[str, Any]) -> None:
    groups, tasks = document["groups"], document["tasks"]
    runs = count(sum(len(group["runs"]) for group in groups), "run")
    print(f"{runs} in {count(len(groups), 'group')}; {'; '.join(map(in_one_line, document['machine']))}")
    print("\nmatches won in the last evaluation, in percent: interquartile mean over the seeds (95 % interval)")
    head = ("group", "seeds", "episodes", "env steps", "trained", *tasks)
    rows = [
        (
            group["name"],
            str(len(group["seeds"])),
            f"{group['episodes']:,.0f}",
            amount(group["env_steps"]),
            training_time(group["seconds"]),
            *(_text(group["final"][task]) for task in tasks),
        )
        for group in groups
    ]
    print_rows([head, *rows], right=(1, 2, 3, 4))
    if len(tasks) > 1:
        print(f"{tasks[-1]}: interquartile mean over the win rates of all seeds against all opponents together")
    if len(groups) > 1:
        print("\nprobability of improvement: that a seed of the row is better than one of the column (95 % interval)")
        _print_square(groups, document["improvement"])
    if document["cross_play"]:
        print("\ncross-play of the final teams: points that row took from column, in percent (95 % interval)")
        _print_square(groups, document["cross_play"]["cells"])
    if caution := document["caution"]:
        print(f"\n{in_one_line(caution['text'].format(**caution['values']))}")
    if document["settings"]:
        print("\nsettings that differ")
        print_rows([(path, *map(setting_text, values)) for path, values in document["settings"].items()])


def _print_square(groups: list[dict[str, Any]], cells: list[list[Any]]) -> None:
    rows = [
        (group["name"], *("-" if cell is None else _text(cell) for cell in row))
        for group, row in zip(groups, cells, strict=True)
    ]
    print_rows([("", *(group["name"] for group in groups)), *rows])


def _text(cell: dict[str, Any]) -> str:
    return cell["text"] if cell["ends"] is None else f"{cell['text']} ({'-'.join(cell['ends'])})"


def _notify(line: str) -> None:
    print(f"snakes: {in_one_line(line)}", file=sys.stderr)
