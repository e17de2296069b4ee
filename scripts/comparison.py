"""Trains all learners with several seeds, compares them by `report`, writes docs/log/comparison.md and its picture.

    python scripts/comparison.py [--seeds 1-10] [--episodes 2500] [--learners ppo_lstm,ddpg,ppo] [--side-by-side 12]
    python scripts/comparison.py --device cuda --minutes-each 0.2     on one GPU, for equal time; a section of its own

A second start skips the runs that are done and resumes the others. On a machine without this checkout's docs:

    python scripts/comparison.py --out DIR     train there; the results go to DIR, the page is left alone
    python scripts/comparison.py --page DIR    later, here: write the page from DIR, train nothing

DIR holds the text for the page, the picture, the evaluations in marl-eval's layout, and the settings and metrics of all
runs (runs.tar.gz; unpacked into --runs-dir, `report` reads them). All learners of a seed start before those of
the next one, in the order of --learners; put slow learners first. With --minutes-each the seeds of one learner run side
by side, and no other runs beside them: so all runs get the same share of the machine.
"""

import argparse
import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from docs_section import DOCS, PICTURES, add_flags, gpu_name, left_to_train, publish, train
from script_parser import ScriptParser

from marl.cli.arguments import positive, positive_int
from marl.cli.wording import count
from marl.commands.train_argv import parse_seeds
from marl.commands.training_jobs import find_room
from marl.compute import machine
from marl.config.train_config import read_config
from marl.registry import LEARNERS
from marl.storage.run_folder import GROUP
from marl.training.resume_plan import ResumePlan

PAGE = DOCS / "log" / "comparison.md"
SECTIONS = {"cpu": "learners", "cuda": "learners_gpu"}  # device -> section of the page
PICTURE, JSON, RUNS = "comparison.png", "marl_eval.json", "runs.tar.gz"
NEEDED = ("config.yaml", "run.json", "metrics.jsonl", "checkpoints/last")  # files of a run that `report` reads
OPPONENTS = "level2,level3,territory"
EVALUATIONS = 4  # of a run by episodes, after the one before training; a run by time has one, at its end
EVAL_MATCHES, LAST_EVAL_MATCHES = 100, 512  # against each opponent, in each of these evaluations
CROSS_PLAY = 200  # matches between two learners


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--device", choices=SECTIONS, default="cpu")
    parser.add_argument("--seeds", default="1-10")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--episodes", type=positive_int, default=2_500, help="of each run")
    limit.add_argument("--minutes-each", type=positive, metavar="M", help="of training in each run, not --episodes")
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--encoder", help="what snakes observe; default: that of train")
    parser.add_argument("--side-by-side", type=positive_int, help="runs at a time, default: cores; on a GPU all seeds")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="then unfinished runs are stopped and left out"
    )
    parser.add_argument("--no-cross-play", dest="cross_play", action="store_false", help="learners do not meet")
    add_flags(parser, "runs/comparison_DEVICE")
    args = parser.parse_args()
    args.runs_dir = args.runs_dir or Path(f"runs/comparison_{args.device}")

    def make(out: Path) -> int:
        seeds = len(parse_seeds(args.seeds))
        args.side_by_side = args.side_by_side or (machine.usable_cores() if args.device == "cpu" else seeds)
        failed = train_all(args)
        pack(args.runs_dir, out / RUNS)
        write_report(args, out)
        return 1 if failed else 0

    return publish(args, PAGE, tuple(SECTIONS.values()), make)


def train_all(args: argparse.Namespace) -> list[str]:
    """Train all runs that are not done; returns the names of those that failed."""
    deadline, argv = time.monotonic() + 60 * args.minutes, common_argv(args)
    learners, seeds = args.learners.split(","), parse_seeds(args.seeds)
    if args.minutes_each:
        rounds = [[(name, seed) for seed in seeds] for name in learners]
    else:
        rounds = [[(name, seed) for seed in seeds for name in learners]]
    plan, failed = ResumePlan(tuple(argv), read_config(argv), None), list[str]()
    room = find_room({}, plan, args.side_by_side)
    for runs in rounds:  # one after the other
        own = ((f"{name}_seed{seed}", [*argv, "--algo", name, "--seed", str(seed)]) for name, seed in runs)
        failed += train(left_to_train(args.runs_dir, own), room, deadline)
    return failed


def common_argv(args: argparse.Namespace) -> list[str]:
    """The flags of all trainings."""
    argv = ["--device", args.device, "--eval-opponents", OPPONENTS, "--no-eval-gif"]
    argv += ["--threads", "1"] if args.device == "cpu" else []
    argv += ["--encoder", args.encoder] if args.encoder else []
    if not args.minutes_each:
        interval = max(1, args.episodes // EVALUATIONS)
        argv += ["--max-episodes", str(args.episodes), "--eval-interval", str(interval)]
        return [*argv, "--eval-matches", str(EVAL_MATCHES)]
    # The schedule must not go by the share of episodes, which nobody knows; nothing but training takes time.
    argv += ["--max-minutes", f"{args.minutes_each:g}", "--max-episodes", "1000000000", "--strategy", "adaptive"]
    argv += ["--eval-interval", "0", "--eval-matches", str(LAST_EVAL_MATCHES)]
    return [*argv, "--log-interval", "300000", "--save-interval", "100000000", "--save-buffer", "0"]


def pack(runs_dir: Path, file: Path) -> None:
    """Put what `report` needs of all runs into one file."""
    with tarfile.open(file, "w:gz") as archive:
        for path in sorted(path for name in NEEDED for path in (runs_dir / GROUP).glob(f"*/{name}")):
            archive.add(path, path.relative_to(runs_dir))


def write_report(args: argparse.Namespace, out: Path) -> None:
    """Compare the runs that are done, and write the text for the page, the picture and the JSON."""
    names = [name for name in LEARNERS if name in args.learners.split(",")]
    argv = [*names, "--runs-dir", str(args.runs_dir), "--json", str(out / JSON)]
    argv += [] if args.minutes_each else ["--png", str(out / PICTURE)]  # one evaluation is no curve
    if len(names) > 1 and args.cross_play:
        argv += ["--cross-play", str(CROSS_PLAY), "--side-by-side", str(args.side_by_side), "--device", "cpu"]
    report = call("report", *argv).partition("\npicture: ")[0].partition("\nmarl-eval's JSON: ")[0]
    parts = [f"{describe(args, names)}\n", f"```text\n{report.rstrip()}\n```\n"]
    if not args.minutes_each:
        parts.append(f"![Share of the matches won by env steps, for each learner]({PICTURES}/{PICTURE})\n")
    if args.device == "cuda":
        parts.insert(0, f"## On one {gpu_name()}\n")
    (out / f"{SECTIONS[args.device]}.md").write_text("\n".join(parts), encoding="utf-8")


def describe(args: argparse.Namespace, names: list[str]) -> str:
    """How the runs were made, in words."""
    given = ["python", "scripts/comparison.py", "--seeds", args.seeds]
    given += ["--device", args.device] if args.device != "cpu" else []
    given += ["--learners", args.learners] if set(names) != set(LEARNERS) else []
    given += ["--encoder", args.encoder] if args.encoder else []
    given += [] if args.cross_play else ["--no-cross-play"]
    by_time = args.minutes_each is not None
    given += ["--minutes-each", f"{args.minutes_each:g}"] if by_time else ["--episodes", str(args.episodes)]
    matches = f"{LAST_EVAL_MATCHES} matches" if by_time else f"{EVAL_MATCHES} matches"
    about = (
        f"By `{shlex.join(given)}`: {'one thread per run' if args.device == 'cpu' else 'all runs on one GPU'}, "
        f"{count(args.side_by_side, 'run')} at a time, {matches} against each opponent "
        f"{'at the end' if by_time else 'in each evaluation'}."
    )
    if args.cross_play:
        about += f" Cross-play: about {CROSS_PLAY} matches for each pair of learners."
    if by_time:
        about += (
            f" Each run trained for {60 * args.minutes_each:.3g} s, beside the other seeds of its learner and no other "
            "run, with the default settings of its learner and `--strategy adaptive`."
        )
    return about


def call(*argv: str) -> str:
    """Run a command of the program, show its output and return it; end if it fails."""
    print(f"$ python -m marl {shlex.join(argv)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "marl", *argv], stdout=subprocess.PIPE, encoding="utf-8")
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
