"""Trains all learners with several seeds and writes the comparison into docs/comparison.md, with its picture.

    python scripts/comparison.py [--seeds 1-3] [--episodes 2500] [--runs-dir runs/comparison] [--learners ddpg,ppo]

A second start skips the runs that are done and resumes the others.
"""

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from marl.compute import machine  # noqa: E402
from marl.registry import LEARNERS  # noqa: E402

PAGE = ROOT / "docs" / "comparison.md"
PICTURE = ROOT / "docs" / "pictures" / "comparison.png"
BEGIN, END = "<!-- learners: begin -->", "<!-- learners: end -->"
CROSS_PLAY = 200  # matches between two learners
EVAL_MATCHES = 100  # against each opponent, in each evaluation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--episodes", type=int, default=2_500)
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--runs-dir", default="runs/comparison")
    args = parser.parse_args()
    names = args.learners.split(",")
    for name in names:
        words = ["--algo", name, "--max_episodes", str(args.episodes), "--eval_matches", str(EVAL_MATCHES)]
        words += ["--threads", "1", "--no-eval_gif"]
        run = ["--seeds", args.seeds, "--run_name", name, "--runs_dir", args.runs_dir]
        call("train", *words, *run)
    report = call("report", *names, "--runs_dir", args.runs_dir, "--cross_play", str(CROSS_PLAY), "--png", str(PICTURE))
    write(report.rpartition("\npicture: ")[0], args.episodes)


def call(*words: str) -> str:
    """Run a command of the program, show its output and return it; end if it fails."""
    print(f"$ python -m marl {shlex.join(words)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "marl", *words], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        sys.exit(process.returncode)
    return "".join(lines)


def write(report: str, episodes: int) -> None:
    """Put the report between the two marks of the page."""
    processor = machine.processor()
    given = shlex.join(["python", "scripts/comparison.py", *sys.argv[1:]])
    about = (
        f"By `{given}` on {time.strftime('%Y-%m-%d')}: {processor['model']}, {processor['cores']} cores; "
        f"{episodes:,} episodes per run, one thread per run, {EVAL_MATCHES} matches against each opponent in each "
        f"evaluation, {CROSS_PLAY} matches of cross-play for each pair of learners."
    )
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    picture = "![Share of the matches won by env steps, for each learner](pictures/comparison.png)"
    block = f"{BEGIN}\n{about}\n\n```text\n{report.rstrip()}\n```\n\n{picture}\n{END}"
    PAGE.write_text(before + block + after, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
