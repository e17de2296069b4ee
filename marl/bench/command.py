"""snakes bench: how fast things run here, as a table or as JSON."""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from marl.bench.timing import WINDOWS, Row
from marl.cli.arguments import new_file, positive, positive_int, split_own
from marl.compute import machine
from marl.errors import UserError

# subject: (module, class) that yields the rows
SUBJECTS = {
    "arena": ("marl.bench.arena", "ArenaBench"),
    "opponents": ("marl.bench.opponents", "OpponentsBench"),
    "planning": ("marl.bench.planning", "PlanningBench"),
    "submission": ("marl.bench.submission", "SubmissionBench"),
}
POSITIONS = "positions"  # the subject that measures play, not speed
# Subjects that are no table of rows, and that take the flags of training. For each the flags that stay the bench's own
# beside them, and whether each takes a value.
COMMON = {"-h": False, "--help": False, "--json": False, "--seconds": True}
COMPARING = {"--save": True, "--compare": True, "--least": True, "--rounds": True}
BESIDE_TRAINING = {
    "train": COMMON | COMPARING | {"--against": True},
    "scaling": COMMON | {"--ranks": True},
    "speedrun": {"-h": False, "--help": False, "--json": False, "--target": True, "--seeds": True},
}
TRAINS = True  # the words set aside are those of a training
ROUNDS, LEAST = 4, 0.97  # of --compare
SECONDS = 1.0  # without --seconds
KNOWN_SUBJECTS = (*SUBJECTS, POSITIONS, *BESIDE_TRAINING)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "arena: turns of random moves in which finished matches start again, all matches at different turns.\n"
        "  CPU: `step` with moves drawn beforehand, alone and with each encoder; and one PettingZoo environment.\n"
        "  GPU: the same inside one CUDA graph of 20 turns; `random` draws the moves on the device.\n"
        "opponents: all six seats played by one scripted opponent, its decisions and the step; on the CPU also the\n"
        "  step alone in the same matches (the same moves, written down), and how many times slower a turn gets.\n"
        "planning: decisions of plan:champion for one team in every match; match-turns are the simulated ones.\n"
        "submission: a submission.py that answers at once, in the sandbox and without it; --threads are the matches\n"
        "  that compute at a time.\n"
        "positions: how many of the mined positions each player solves, in which one move alone avoids a proven death\n"
        "  (docs/planning.md): bench positions --players champion,plan:champion.\n"
        "train: cycles of training as a run goes through them, turns and updates, with a full buffer; then the same\n"
        "  cycles split into arena, opponents, policy, buffer and update. Takes the flags of train as well,\n"
        "  --device, --matches and --config among them: bench train --matches 8192 --ddpg.turns 2 --body 512,256.\n"
        "  On a GPU the cycles are the real CUDA graphs, and in the split each part is a graph of its own.\n"
        "scaling: training on 1, 2, 4, ... ranks of this machine, each number started as train --distributed does it:\n"
        "  speed, speedup over one rank, and efficiency (speedup / ranks), without evaluations and checkpoints. Takes\n"
        "  the flags of train as well: bench scaling --algo ppo.\n"
        "speedrun: seconds from Enter until an evaluation of a training shows the win rate of --target; the flags of\n"
        "  train follow: bench speedrun --target territory:0.9 --config champion_60s --eval_interval 2000.\n"
        "--save keeps the speeds of several rounds in a file; --compare measures the same bench again and prints\n"
        "  ratios with 95 % intervals (docs/performance.md). Rounds of this and another checkout alternate.\n"
        f"Each row is warmed up, then measured in {WINDOWS} windows that share --seconds; the best window counts."
    )
    parser.add_argument(
        "subject",
        nargs="?",
        default="arena",
        type=_subject,
        help="arena (default), opponents, planning, submission, positions, train, scaling or speedrun",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="measure only this one (default: both, if there)")
    parser.add_argument(
        "--matches",
        type=_numbers,
        metavar="N,N",
        help="batch sizes (default for the arena: 1,64,1024,16384 on the CPU, 16384,65536,131072,262144 on a GPU; "
        "for opponents: 1024 and 16384,65536)",
    )
    parser.add_argument(
        "--threads", type=_numbers, metavar="N,N", help="CPU threads (default: 1 and all; opponents: 1)"
    )
    parser.add_argument("--seconds", type=positive, metavar="S", help=f"time per row (default: {SECONDS:g})")
    parser.add_argument(
        "--against",
        type=_names,
        metavar="NAME,NAME",
        help="train: opponents, each met in as many matches as the others (default: level2)",
    )
    parser.add_argument(
        "--ranks",
        type=_numbers,
        metavar="N,N",
        help="scaling: numbers of ranks (default: 1,2,4,8, with GPUs up to their number); 1 is always measured",
    )
    parser.add_argument(
        "--target", type=_target, metavar="NAME:RATE", help="speedrun: opponent and win rate, like territory:0.9"
    )
    parser.add_argument("--seeds", type=_numbers, metavar="N,N", help="speedrun: one training for each (default: 1)")
    parser.add_argument(
        "--save", type=new_file, metavar="FILE", help="arena, opponents, planning, submission, train: keep the speeds"
    )
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="compare the speeds with a file of --save, or with the folder of another checkout",
    )
    parser.add_argument(
        "--least",
        type=positive,
        metavar="X",
        help=f"--compare: exit code 1 if a ratio is below X, its whole interval too (default: {LEAST})",
    )
    parser.add_argument(
        "--rounds",
        type=positive_int,
        metavar="N",
        help=f"--save and --compare: processes per side (default: {ROUNDS})",
    )
    parser.add_argument(
        "--players",
        type=_names,
        metavar="NAME,NAME",
        help="positions: who is asked (default: champion,plan:champion,level4,territory)",
    )
    parser.add_argument(
        "--file", metavar="FILE", help="positions: an .npz file of them (default: the 226 that come with the program)"
    )


def set_aside(argv: list[str]) -> tuple[list[str], list[str]]:
    """The bench's own arguments, and those that the configuration of training reads."""
    subject = next((word for word in argv if word in BESIDE_TRAINING), None)
    if subject is None:
        return argv, []
    at = argv.index(subject)
    before, after = (split_own(each, BESIDE_TRAINING[subject]) for each in (argv[:at], argv[at + 1 :]))
    return [*before[0], subject, *after[0]], before[1] + after[1]


def run(args: argparse.Namespace) -> int:
    if args.save or args.compare or args.least or args.rounds:
        return _run_comparison(args)
    if args.subject == "train":
        return _run_train(args)
    if args.subject == "scaling":
        return _run_scaling(args)
    if args.subject == "speedrun":
        return _run_speedrun(args)
    for flag, value, subject in (
        ("--against", args.against, "train"),
        ("--ranks", args.ranks, "scaling"),
        ("--target", args.target, "speedrun"),
        ("--seeds", args.seeds, "speedrun"),
        ("--players", args.players, POSITIONS),
        ("--file", args.file, POSITIONS),
    ):
        if value and args.subject != subject:
            raise UserError(f"{flag} is a flag of bench {subject}; bench {args.subject} does not read it")
    if args.subject == POSITIONS:
        if args.matches or args.threads:
            raise UserError("--matches and --threads are flags of tables of speed; bench positions does not read them")
        return _run_positions(args)
    module, name = SUBJECTS[args.subject]
    seconds = args.seconds or SECONDS
    bench = getattr(importlib.import_module(module), name)(args.device, args.matches, args.threads, seconds)
    about = _machine()
    if args.json:
        rows = [row.as_dict() for row in bench.rows()]
        print(json.dumps({"machine": about, **bench.facts(), "rows": rows}, indent=2))
    else:
        _print_table(about, bench.rows())
        for name, value in bench.facts().items():
            _print_fact(name.replace("_", " "), value)
    return 0


def _run_comparison(args: argparse.Namespace) -> int:
    from marl.bench import compare

    if args.subject not in (*SUBJECTS, "train"):
        known = ", ".join((*SUBJECTS, "train"))
        raise UserError(f"bench {args.subject} has no speeds to save or compare; allowed: {known}")
    if bool(args.save) == bool(args.compare):
        raise UserError("give either --save FILE or --compare FILE; --least and --rounds belong to them")
    if args.json:
        raise UserError("--save writes JSON and --compare prints a table; leave --json out")
    argv = [args.subject]
    for flag in ("device", "matches", "threads", "seconds", "against"):
        value = getattr(args, flag)
        if value:
            argv += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    argv += args.set_aside or []
    rounds = args.rounds or ROUNDS
    if args.save:
        rows = compare.save(args.save, argv, rounds)
        print(f"{args.save}: {rows} rows, {rounds} rounds")
        return 0
    least = args.least or LEAST
    ratios = compare.compare(args.compare, argv, rounds)
    compare.print_ratios(ratios, least)
    return 1 if any(compare.is_below(each, least) for each in ratios) else 0


def _run_train(args: argparse.Namespace) -> int:
    from marl.bench.training import TrainBench, table

    report = TrainBench(args.set_aside, args.against, args.seconds or SECONDS).report()
    _print_report(args, report, table)
    return 0


def _run_scaling(args: argparse.Namespace) -> int:
    from marl.bench.scaling import RanksFailed, ScalingBench, table

    try:
        report = ScalingBench(args.set_aside, args.ranks, args.seconds or SECONDS).report()
    except RanksFailed as error:
        return error.code
    _print_report(args, report, table)
    return 0


def _run_speedrun(args: argparse.Namespace) -> int:
    from marl.bench.speedrun import SpeedrunBench, Target, TrainingFailed, table

    if args.target is None:
        raise UserError("bench speedrun needs --target NAME:RATE, like --target territory:0.9")
    notify = partial(print, "snakes:", file=sys.stderr, flush=True)
    try:
        report = SpeedrunBench(Target(*args.target), args.seeds or [1], args.set_aside, notify).report()
    except TrainingFailed as error:
        return error.code
    _print_report(args, report, partial(table, about_machine=_machine_in_words()))
    return 1 if report["median_seconds"] is None else 0


def _print_report(args: argparse.Namespace, report: dict[str, Any], table: Callable[[dict[str, Any]], str]) -> None:
    if args.json:
        print(json.dumps({"machine": _machine(), **report}, indent=2))
    else:
        _print_machine(_machine())
        print(f"\n{table(report)}")


def _run_positions(args: argparse.Namespace) -> int:
    from marl.bench.planning import measure_players

    rows = measure_players(args.players, args.file, args.device or "cpu")
    if args.json:
        print(json.dumps({"rows": list(rows)}, indent=2))
        return 0
    print(f"{'player':24} {'solved':>6} {'of':>5}  rate and 95 % interval")
    for row in rows:
        shares = f"{row['rate']:.1%} ({row['rate_low']:.1%} to {row['rate_high']:.1%})"
        print(f"{row['player']:24} {row['solved']:6} {row['positions']:5}  {shares}", flush=True)
    return 0


def _machine() -> dict[str, Any]:
    return {"cpu": machine.processor(), "gpus": machine.gpus(), "versions": machine.versions()}


def _machine_in_words() -> str:
    gpus = [gpu["name"] for gpu in machine.gpus()]
    cpu = machine.processor()
    cores = f"{cpu['cores']} cores of {cpu['model']}"
    return f"{cores}, {len(gpus)} x {gpus[0]}" if gpus else cores


def _print_machine(about: dict[str, Any]) -> None:
    print(f"CPU: {machine.processor_text(about['cpu'])}")
    for i, gpu in enumerate(about["gpus"]):
        print(f"GPU {i}: {gpu['name']}, {gpu['memory_gib']} GiB")
    has_gpu = bool(about["gpus"])
    print(", ".join(f"{name} {machine.version_text(name, v, has_gpu)}" for name, v in about["versions"].items()))


def _print_table(about: dict[str, Any], rows: Iterator[Row]) -> None:
    _print_machine(about)
    print(f"\n{'device':6} {'matches':>8} {'threads':>7}  {'what':30} {'match-turns/s':>14} {'snake-turns/s':>14}")
    for row in rows:
        rate = row.match_turns_per_second
        threads = "-" if row.threads is None else row.threads
        print(
            f"{row.device:6} {row.matches:8,} {threads:>7}  {row.what:30} {rate:14,.0f} {6 * rate:14,.0f}", flush=True
        )
    print()


def _print_fact(name: str, value: Any) -> None:
    """One number in a line, or a table of several below their name."""
    if not isinstance(value, dict):
        print(f"{name}: {value:,}")
        return
    print(f"{name}:")
    width = max(map(len, value), default=0)
    for label, number in value.items():
        print(f"  {label:{width}}  {number:8,.2f}")


def _subject(text: str) -> str:
    if text not in KNOWN_SUBJECTS:
        raise argparse.ArgumentTypeError(f"unknown subject {text!r}; known: {', '.join(KNOWN_SUBJECTS)}")
    return text


def _target(text: str) -> tuple[str, float]:
    name, _, rate = text.rpartition(":")
    try:
        share = float(rate)
    except ValueError:
        share = 0.0
    if not name or not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no opponent with a win rate, like territory:0.9")
    return name, share


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    if "" in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names, like level1,level2")
    return names


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers from 1, like 1,64")
    return numbers
