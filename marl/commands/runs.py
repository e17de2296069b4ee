"""The command `runs`: list, compare and clean up training runs."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marl.analysis.tables import amount, letter, print_rows, setting_text, shortened, training_time
from marl.cli.arguments import new_file_ending, positive_int, split_flags
from marl.cli.invocation import command
from marl.cli.wording import count, in_one_line, size_text
from marl.errors import UserError
from marl.storage.run_names import RUNS_DIR

if TYPE_CHECKING:
    from marl.analysis.runs import EvaluationPoint, RunSummary

# Action -> arguments and description in the help text.
ACTIONS = {
    "list": ("", "all runs, the newest first (default)"),
    "compare": ("RUN RUN ...", "settings that differ, results, and with --png the learning curves in one picture"),
    "best": ("[RUN ...]", "print the path of the run with the most points in one of its evaluations"),
    "last": ("", "print the path of the run that was started last"),
    "delete": ("RUN ...", "delete whole runs"),
    "prune": ("[RUN ...]", "delete old checkpoints (--keep) or old runs (--older_than)"),
}
# Flag -> the actions that read it. `--runs-dir` and `--json` are for all.
READ_BY = {
    "png": ("compare",),
    "by": ("compare",),
    "against": ("best",),
    "yes": ("delete", "prune"),
    "keep": ("prune",),
    "older_than": ("prune",),
}
WITH_VALUE = ("--png", "--by", "--against", "--keep", "--older-than", "--runs-dir")
SETTING_MAX = 30  # letters, in a comparison
DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} [ACTION] [RUN ...] [flags]"
    width = max(len(f"{name} {words}") for name, (words, _) in ACTIONS.items())
    rows = [f"  {f'{name} {words}':{width}}  {text}" for name, (words, text) in ACTIONS.items()]
    parser.epilog = "\n".join(
        [
            "actions:",
            *rows,
            "",
            "RUN is a path, the name of a run, its number (run7), or `last`. Every command that takes a run or a",
            "player knows these names, too: eval --home last, train --resume last, export last --html FILE.",
            "steps: env steps. best win rate: of the best evaluation, against its last opponent (95 % interval).",
            "A run that is still training is never deleted or pruned.",
        ]
    )
    parser.add_argument("--runs-dir", default=RUNS_DIR, metavar="DIR", help=f"folder of all runs (default: {RUNS_DIR})")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument(
        "--png", type=new_file_ending(".png"), metavar="FILE", help="compare: draw the learning curves into a PNG file"
    )
    parser.add_argument(
        "--by",
        choices=("episodes", "steps", "minutes"),
        help="compare: x axis of the picture; steps are env steps, minutes are of training (default: episodes)",
    )
    parser.add_argument("--against", metavar="NAME", help="best: by the win rate against this opponent alone")
    parser.add_argument(
        "--keep", type=positive_int, metavar="N", help="prune: checkpoints to keep per run, and `best`; from 1"
    )
    parser.add_argument("--older-than", type=_days, metavar="AGE", help="prune: delete runs unchanged for 12h, 30d, 8w")
    parser.add_argument("--yes", action="store_true", help="delete, prune: do not ask")


def set_aside(argv: list[str]) -> tuple[list[str], list[str]]:
    """The flags with their values, and the arguments that belong to no flag: the action and the runs."""
    return split_flags(argv, WITH_VALUE)


def run(args: argparse.Namespace) -> int:
    action, *names = args.set_aside or ["list"]
    if action not in ACTIONS:
        raise UserError(f"unknown action {action!r} of runs; known: {', '.join(ACTIONS)}")
    for flag, readers in READ_BY.items():
        if getattr(args, flag) not in (None, False) and action not in readers:
            raise UserError(f"--{flag} is a flag of runs {' and '.join(readers)}; runs {action} does not read it")
    if names and action in ("list", "last"):
        raise UserError(f"runs {action} takes no run; it was given {names[0]!r}")
    if action in ("compare", "delete") and not names:
        raise UserError(f"runs {action} needs {ACTIONS[action][0]} (see {command('runs', 'list')})")
    doing: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
        "list": _list, "compare": _compare, "best": _best, "last": _last, "delete": _delete, "prune": _prune,
    }  # fmt: skip
    return doing[action](args, names)


def _list(args: argparse.Namespace, names: list[str]) -> int:
    from marl.analysis.runs import read_all

    runs = read_all(args.runs_dir)
    if args.json:
        print(json.dumps([run.document() for run in runs], indent=2))
        return 0
    if not runs:
        print(f"no runs in {in_one_line(args.runs_dir)}; train one: {command('train')}")
        return 0
    rows = [("run", "algo", "episodes", "steps", "best win rate", "trained", "disk", "state")]
    for run in runs:
        rows.append(
            (
                shortened(run.name),
                run.algo,
                f"{run.episodes:,}",
                amount(run.env_steps),
                _last_rate(run.best),
                training_time(run.seconds),
                size_text(run.size),
                run.state,
            )
        )
    print_rows(rows, right=(2, 3, 5, 6))
    print(f"{count(len(runs), 'run')}, {size_text(sum(run.size for run in runs))} in {in_one_line(args.runs_dir)}")
    return 0


def _compare(args: argparse.Namespace, names: list[str]) -> int:
    from marl.analysis.groups import differing_settings
    from marl.analysis.runs import find_runs

    runs = find_runs(names, args.runs_dir)
    if len(runs) < 2:
        raise UserError(f"runs compare needs two different runs or more; given: {', '.join(names)}")
    if args.png:
        _draw(runs, args.png, args.by or "episodes")
    differing = differing_settings([run.settings() for run in runs])
    if args.json:
        print(json.dumps({"runs": [run.document() for run in runs], "settings": differing}, indent=2, default=str))
        return 0
    letters = [letter(i) for i in range(len(runs))]
    for each, run in zip(letters, runs, strict=True):
        print(f"{each}  {in_one_line(str(run.folder))} ({run.state})")
    settings = [(path, *(setting_text(value, SETTING_MAX) for value in values)) for path, values in differing.items()]
    for title, rows in (("settings that differ", settings), ("results", _results(runs))):
        print(f"\n{title}")
        if rows:
            print_rows([(f"  {row[0]}", *row[1:]) for row in [("", *letters), *rows]])
        else:
            print("  none")
    if args.png:
        print(f"\npicture: {args.png}")
    return 0


def _results(runs: "Sequence[RunSummary]") -> list[tuple[str, ...]]:
    rows = [
        ("episodes", *(f"{run.episodes:,}" for run in runs)),
        ("env steps", *(amount(run.env_steps) for run in runs)),
        ("trained", *(training_time(run.seconds) for run in runs)),
        ("on disk", *(size_text(run.size) for run in runs)),
        ("best at episode", *(f"{run.best.episode:,}" if run.best else "-" for run in runs)),
        ("points there", *(f"{run.best.points:.1%}" if run.best else "-" for run in runs)),
    ]
    for name in dict.fromkeys(name for run in runs for name in run.opponents):
        rates = (run.best.text(name) if run.best and name in run.best.rates else "-" for run in runs)
        rows.append((f"won against {name}", *rates))
    return rows


def _draw(runs: "Sequence[RunSummary]", png: Path, by: str) -> None:
    from marl.analysis.curves import Curve, save_curves

    names = dict.fromkeys(name for run in runs for name in run.opponents)
    panels = {name: [Curve(run.name, run.curve(name, by)) for run in runs] for name in names}
    panels = {name: curves for name, curves in panels.items() if any(curve.points for curve in curves)}
    if not panels:
        raise UserError("no curves to draw: none of these runs has been evaluated yet")
    save_curves(png, panels, by)


def _best(args: argparse.Namespace, names: list[str]) -> int:
    from marl.analysis.runs import find_runs, read_all

    runs = [run for run in (find_runs(names, args.runs_dir) if names else read_all(args.runs_dir)) if run.best]
    if not runs:
        raise UserError(f"no run in {args.runs_dir} has been evaluated yet")
    if args.against:
        compared = [run for run in runs if args.against in run.opponents]
        score = {id(run): max(point.rates.get(args.against, 0.0) for point in run.evaluations) for run in compared}
        what = f"win rate against {args.against}"
    else:
        # The largest set of runs that can be compared, of equals the one with the newest run.
        sets = Counter(run.opponents for run in runs)
        opponents = max(sets, key=sets.__getitem__)
        compared = [run for run in runs if run.opponents == opponents]
        score = {id(run): run.best.points for run in compared}
        what = f"points against {', '.join(opponents)}"
    if not compared:
        known = sorted({name for run in runs for name in run.opponents})
        raise UserError(f"--against {args.against}: no run was evaluated against it; known: {', '.join(known)}")
    best = max(compared, key=lambda run: score[id(run)])
    if args.json:
        print(json.dumps(best.document(), indent=2))
        return 0
    print(in_one_line(str(best.folder)))
    left = len(runs) - len(compared)
    others = f"; {count(left, 'run')} with other opponents not compared (see --against)" if left else ""
    among = count(len(compared), "run")
    print(f"{score[id(best)]:.1%} {what}, the best of {among}{others}", file=sys.stderr)
    return 0


def _last(args: argparse.Namespace, names: list[str]) -> int:
    from marl.storage.run_names import LAST_RUN, find_named

    folder = find_named(str(Path(args.runs_dir) / LAST_RUN), args.runs_dir)
    if not folder.is_dir():
        raise UserError(f"there is no run in {args.runs_dir} yet")
    print(json.dumps(str(folder)) if args.json else in_one_line(str(folder)))
    return 0


def _delete(args: argparse.Namespace, names: list[str]) -> int:
    from marl.analysis.runs import find_runs
    from marl.commands.runs_removal import delete_runs

    return delete_runs(find_runs(names, args.runs_dir), args.yes, args.json)


def _prune(args: argparse.Namespace, names: list[str]) -> int:
    from marl.analysis.runs import RUNNING, find_runs, read_all
    from marl.commands.runs_removal import delete_runs, prune_checkpoints

    if (args.keep is None) == (args.older_than is None):
        raise UserError("runs prune needs --keep N (checkpoints) or --older_than AGE (whole runs), one of them")
    runs = find_runs(names, args.runs_dir) if names else read_all(args.runs_dir)
    if not names:  # not an error, unlike a running one that is named
        runs = [run for run in runs if run.state != RUNNING]
    if args.keep is not None:
        return prune_checkpoints(runs, args.keep, args.yes, args.json)
    limit = time.time() - 86400 * args.older_than
    return delete_runs([run for run in runs if run.changed < limit], args.yes, args.json)


def _last_rate(point: "EvaluationPoint | None") -> str:
    """The win rate of an evaluation against its last opponent."""
    if point is None:
        return "-"
    name = list(point.rates)[-1]
    return f"{name} {point.text(name)}"


def _days(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    try:
        days = float(number) * DAYS[unit]
    except (ValueError, KeyError):
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; allowed: hours, days or weeks, like 12h, 30d or 8w")
    return days
