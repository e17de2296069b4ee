"""Trains the trained teams of the field (opponents/field.yaml), and writes their snapshots to opponents/field.

    python scripts/train_field.py [--half development] [--runs-dir runs/field]     on one GPU, under a minute each
    python scripts/train_field.py --print     the commands alone

A team whose snapshot is there is left alone; a training that was cut off is resumed.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from script_parser import ScriptParser

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from marl.storage.run_folder import GROUP  # noqa: E402
from opponents.field import DEVELOPMENT, HELD_OUT, SNAPSHOTS, trainings  # noqa: E402

NEVER_REACHED = 10**9  # episodes: the minutes end a training


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--half", choices=(DEVELOPMENT, HELD_OUT), help="default: both")
    parser.add_argument("--runs-dir", default="runs/field", metavar="DIR")
    parser.add_argument("--print", action="store_true", help="print the commands, start nothing")
    args = parser.parse_args()
    halves = [args.half] if args.half else [DEVELOPMENT, HELD_OUT]
    if not args.print:
        SNAPSHOTS.mkdir(exist_ok=True)
    for name, flags in (item for half in halves for item in trainings(half).items()):
        snapshot = SNAPSHOTS / f"{name}.safetensors"
        if snapshot.exists():
            continue
        place = ["--runs_dir", args.runs_dir, "--run_name", name]
        commands = (
            ["train", *shlex.split(flags), f"--max_episodes={NEVER_REACHED}", *place],
            ["export", f"{args.runs_dir}/{GROUP}/{name}", "--safetensors", str(snapshot)],
        )
        for command in commands:
            print(shlex.join(["python", "-m", "marl", *command]), flush=True)
            if not args.print:
                subprocess.run([sys.executable, "-m", "marl", *command], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
