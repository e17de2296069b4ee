"""Trains all learners with several seeds, compares them by `report`, and writes docs/comparison.md with its picture.

    python scripts/comparison.py [--seeds 1-10] [--episodes 2500] [--learners ppo_lstm,ddpg,ppo] [--side-by-side 12]

A second start skips the runs that are done and resumes the others. On a machine without this checkout's docs:

    python scripts/comparison.py --out DIR     train there; the results go to DIR, the page is left alone
    python scripts/comparison.py --page DIR    later, here: write the page from DIR, train nothing

DIR holds the text for the page, the picture, the evaluations in marl-eval's layout, and the settings and metrics of all
runs (runs.tar.gz; unpacked into --runs-dir, `report` reads them). All learners of a seed start before those of
the next one, in the order of --learners; put slow learners first.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from marl.commands.train_seeds import is_done, parse_seeds  # noqa: E402
from marl.commands.training_jobs import Job, Room, limit_threads, run_jobs  # noqa: E402
from marl.compute import machine  # noqa: E402
from marl.config.train_config import read_config  # noqa: E402
from marl.registry import LEARNERS  # noqa: E402
from marl.storage.run_folder import GROUP  # noqa: E402
from marl.training.signals import stop_on_signals  # noqa: E402
from marl.wording import count, duration  # noqa: E402

PAGE = ROOT / "docs" / "comparison.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN, END = "<!-- learners: begin -->", "<!-- learners: end -->"
TEXT, PICTURE, JSON, RUNS = "learners.md", "comparison.png", "marl_eval.json", "runs.tar.gz"
NEEDED = ("config.yaml", "run.json", "metrics.jsonl", "checkpoints/last")  # files of a run that `report` reads
OPPONENTS = "level2,level3,territory"
EVALUATIONS = 4  # after the one before training
EVAL_MATCHES = 100  # against each opponent, in each evaluation
CROSS_PLAY = 200  # matches between two learners


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-10")
    parser.add_argument("--episodes", type=int, default=2_500)
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument(
        "--side-by-side", type=int, default=machine.usable_cores(), help="runs at a time, default: cores"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="then unfinished runs are stopped and left out"
    )
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/comparison"))
    parser.add_argument("--out", type=Path, help="folder for the results, instead of the page")
    parser.add_argument("--page", type=Path, help="only write the page, from the results in this folder")
    args = parser.parse_args()
    if args.page:
        write_page(args.page)
        return 0
    failures = train(args)
    out = args.out or args.runs_dir
    out.mkdir(parents=True, exist_ok=True)
    pack(args.runs_dir, out / RUNS)
    write_report(args, out)
    if not args.out:
        write_page(out)
    return 1 if failures else 0


def train(args: argparse.Namespace) -> int:
    """Train all runs that are not done, side by side; returns how many failed."""
    deadline, failures, stopped = time.monotonic() + 60 * args.minutes, list[str](), list[int]()

    def tell_end(job: Job, code: int) -> None:
        problem = f"exit code {code}, {job.last_words()}" if code else ""
        if code and not is_stopped():
            failures.append(job.name)
        print(f"{job.name}: {problem or 'done'} in {duration(job.seconds)}", flush=True)

    def is_stopped() -> bool:
        return bool(stopped) or time.monotonic() > deadline

    with stop_on_signals(stopped.append):
        room = Room((limit_threads(1),) * args.side_by_side)
        run_jobs(jobs(args), room, lambda job: None, tell_end, is_stopped, lambda running: None)
    if stopped:
        sys.exit(128 + stopped[0])
    return len(failures)


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    """The trainings that are left to do."""
    for seed in parse_seeds(args.seeds):
        for name in args.learners.split(","):
            run = f"{name}_seed{seed}"
            words = ["--algo", name, "--seed", str(seed), "--max-episodes", str(args.episodes), "--device", "cpu"]
            words += ["--eval-matches", str(EVAL_MATCHES), "--eval-opponents", OPPONENTS, "--no-eval-gif"]
            words += ["--eval-interval", str(max(1, args.episodes // EVALUATIONS))]
            words += ["--threads", "1", "--run-name", run, "--runs-dir", str(args.runs_dir)]
            folder = args.runs_dir / GROUP / run
            if not is_done(folder, read_config(words)):
                yield Job(run, words, folder.with_suffix(".log"))


def pack(runs_dir: Path, file: Path) -> None:
    """Put what `report` needs of all runs into one file."""
    with tarfile.open(file, "w:gz") as archive:
        for path in sorted(path for name in NEEDED for path in (runs_dir / GROUP).glob(f"*/{name}")):
            archive.add(path, path.relative_to(runs_dir))


def write_report(args: argparse.Namespace, out: Path) -> None:
    """Compare the runs that are done, and write the text for the page, the picture and the JSON."""
    names = [name for name in LEARNERS if name in args.learners.split(",")]
    words = [*names, "--runs-dir", str(args.runs_dir), "--png", str(out / PICTURE), "--json", str(out / JSON)]
    if len(names) > 1:
        words += ["--cross-play", str(CROSS_PLAY), "--side-by-side", str(args.side_by_side), "--device", "cpu"]
    report = call("report", *words).partition("\npicture: ")[0]
    given = ["python", "scripts/comparison.py", "--seeds", args.seeds, "--episodes", str(args.episodes)]
    given += [] if set(names) == set(LEARNERS) else ["--learners", args.learners]
    about = (
        f"By `{shlex.join(given)}`: one thread per run, {count(args.side_by_side, 'run')} at a time, "
        f"{EVAL_MATCHES} matches against each opponent in each evaluation, "
        f"about {CROSS_PLAY} matches of cross-play for each pair of learners."
    )
    picture = f"![Share of the matches won by env steps, for each learner](pictures/{PICTURE})"
    (out / TEXT).write_text(f"{about}\n\n```text\n{report.rstrip()}\n```\n\n{picture}\n", encoding="utf-8")


def call(*words: str) -> str:
    """Run a command of the program, show its output and return it; end if it fails."""
    print(f"$ python -m marl {shlex.join(words)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "marl", *words], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def write_page(results: Path) -> None:
    """Put the text between the two marks of the page, and the picture beside it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = (results / TEXT).read_text(encoding="utf-8")
    PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")
    shutil.copyfile(results / PICTURE, PICTURES / PICTURE)
    print(f"wrote {PAGE.relative_to(ROOT)} and {(PICTURES / PICTURE).relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
