"""What the scripts share whose trainings make a section of a page in docs/: flags, trainings, and the page itself.

A section is the text between two marks, `<!-- NAME: begin -->` and `<!-- NAME: end -->`. A script trains here, or with
--out DIR on another machine: then --page DIR writes the page here, later.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arena.errors import ArenaError  # noqa: E402
from marl.commands.training_jobs import Room, TrainingJob, run_jobs  # noqa: E402
from marl.compute import machine  # noqa: E402
from marl.config.train_config import read_config  # noqa: E402
from marl.errors import UserError  # noqa: E402
from marl.ranks.placement import place  # noqa: E402
from marl.storage.run_folder import GROUP  # noqa: E402

DOCS = ROOT / "docs"
PICTURES = "pictures"  # beside the page


def add_flags(parser: argparse.ArgumentParser, runs_dir: str) -> None:
    """Where the runs and the results go."""
    parser.add_argument("--runs-dir", type=Path, help=f"folder of the runs, default: {runs_dir}")
    parser.add_argument("--out", type=Path, help="folder for the results, instead of the page")
    parser.add_argument("--page", type=Path, help="only write the page, from the results in this folder")


def publish(args: argparse.Namespace, page: Path, names: Sequence[str], make: Callable[[Path], int]) -> int:
    """Make the results and write the page, or one of both, as the flags say; returns the exit code.

    names: of the sections. make: writes the results, NAME.md and pictures, into a folder and returns an exit code.
    """
    results, code = args.page or args.out or args.runs_dir, 0
    try:
        if not args.page:
            place(None, args.device, 0, 1, torch.cuda.device_count())  # a missing GPU: told before any training
            results.mkdir(parents=True, exist_ok=True)
            code = make(results)
        if args.page or not args.out:
            write_sections(results, page, names)
    except (UserError, ArenaError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    return code


def write_sections(results: Path, page: Path, names: Sequence[str]) -> None:
    """Put the texts NAME.md of a folder into the page, and its pictures beside it."""
    found = [name for name in names if (results / f"{name}.md").is_file()]
    if not found:
        raise UserError(f"{results} has no results ({' or '.join(f'{name}.md' for name in names)}); make them by --out")
    for name in found:
        write_section(page, name, (results / f"{name}.md").read_text(encoding="utf-8"))
    for picture in results.glob("*.png"):
        shutil.copyfile(picture, page.parent / PICTURES / picture.name)
    print(f"wrote {page}")


def write_section(page: Path, name: str, text: str) -> None:
    """Put a text, which ends with a line's end, between the marks of its name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, has_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise UserError(f"{page} needs the marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")


def left_to_train(runs_dir: Path, argv_of: Iterable[tuple[str, list[str]]]) -> Iterator[TrainingJob]:
    """The trainings that are not done, of the names of runs with the flags of their trainings."""
    for name, argv in argv_of:
        argv = [*argv, "--run-name", name, "--runs-dir", str(runs_dir)]
        job = TrainingJob(name, argv, runs_dir / GROUP / name, read_config(argv))
        if not job.is_done():
            yield job


def train(jobs: Iterable[TrainingJob], room: Room, deadline: float = float("inf")) -> list[str]:
    """Run the trainings, as many at a time as there is room; returns the names of those that failed.

    At the deadline, by time.monotonic, those that run are stopped; they do not count as failed.
    """
    jobs = list(jobs)
    stopped = run_jobs(jobs, room, "trainings", is_over=lambda: time.monotonic() > deadline)
    if stopped:
        sys.exit(128 + stopped)
    return [job.name for job in jobs if job.problem and not job.is_asked_to_stop]


def gpu_name() -> str:
    """Of this machine, without its maker: H200."""
    return next((gpu["name"].removeprefix("NVIDIA ") for gpu in machine.gpus()), "GPU")
