"""Speeds kept in a file, and speeds compared with such a file or with another checkout.

A round is one `bench` in a process of its own. Against a checkout the rounds alternate, theirs/ours/ours/theirs, so
that a machine that gets slower or faster meanwhile does not count for one side. The ratio of a row is the mean over
rounds, with a 95 % interval from their spread.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.files import write_user_file
from marl.analysis.statistics import Rates, Ratio, ratios_of_pairs, ratios_of_sets
from marl.analysis.tables import print_rows
from marl.compute import machine
from marl.errors import UserError
from marl.storage.run_folder import git_state

FORMAT = 1
ROOT = Path(__file__).resolve().parent.parent.parent


def save(path: Path, argv: Sequence[str], rounds: int) -> int:
    """Measure and keep the speeds of all rounds; returns the number of rows."""
    found = [measure_round(argv, ROOT) for _ in range(rounds)]
    state = git_state() or {}
    document = {
        "format": FORMAT,
        "words": list(argv),
        "date": time.strftime("%Y-%m-%d"),
        "commit": state.get("commit"),
        "machine": {"cpu": machine.processor(), "gpus": machine.gpus(), "versions": machine.versions()},
        "rounds": found,
    }
    write_user_file(path, (json.dumps(document, indent=1) + "\n").encode())
    return len(found[0])


def compare(other: str, argv: Sequence[str], rounds: int) -> list[Ratio]:
    """Measure, and compare with a file of `save` or with another checkout of this program.

    argv: the subject and its flags; for a file the subject is enough, and the flags are those of the file.
    """
    path = Path(other)
    if path.is_dir():
        if not (path / "marl" / "__main__.py").is_file():
            raise UserError(f"{other} is neither a file of bench --save nor a checkout of this program")
        theirs: list[Rates] = []
        ours: list[Rates] = []
        for number in range(rounds):
            order = ((theirs, path.resolve()), (ours, ROOT))
            for found, root in order if number % 2 == 0 else reversed(order):
                found.append(measure_round(argv, root))
        return ratios_of_pairs(theirs, ours)
    saved, theirs = _read(path)
    if list(argv) not in (saved, saved[:1]):
        raise UserError(f"{other} is of `bench {' '.join(saved)}`; compare it with the same flags, or with none")
    return ratios_of_sets(theirs, [measure_round(saved, ROOT) for _ in range(rounds)])


def _read(path: Path) -> tuple[list[str], list[Rates]]:
    """The arguments and the rounds of a file of `save`."""
    try:
        document = json.loads(path.read_text("utf-8"))
        saved: list[str] = document["words"]
        rounds: list[Rates] = [dict(each) for each in document["rounds"]]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is no file of bench --save") from None
    if document.get("format") != FORMAT:
        raise UserError(f"{path} has format {document.get('format')}; this program reads format {FORMAT}")
    return saved, rounds


def measure_round(argv: Sequence[str], root: Path) -> Rates:
    """One bench in a process of its own, of the program in this folder."""
    command = [sys.executable, "-m", "marl", "bench", *argv, "--json"]
    settings = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=settings, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"bench in {root}: {last.removeprefix('snakes: ')}")
    return rates_in(json.loads(done.stdout))


def rates_in(report: dict[str, Any]) -> Rates:
    """The speeds of a bench's JSON document by row."""
    if "rates" in report:  # of training
        return {"env steps": report["rates"]["env_steps_per_second"]}
    return {
        f"{row['what']}, {row['device']}, {row['matches']} matches, {row['threads'] or '-'} threads": row[
            "match_turns_per_second"
        ]
        for row in report["rows"]
    }


def print_ratios(ratios: Sequence[Ratio], least: float) -> None:
    """Print the ratios; rows that are surely below `least` are marked."""
    rows = [("per second", "theirs", "here", "ratio", "95 % interval")]
    for each in ratios:
        mark = f"  below {least:g}" if is_below(each, least) else ""
        speeds = f"{each.theirs:,.0f}", f"{each.ours:,.0f}", f"{each.ratio:.3f}"
        rows.append((each.row, *speeds, f"{each.low:.3f} to {each.high:.3f}{mark}"))
    print_rows(rows, right=(1, 2, 3))


def is_below(ratio: Ratio, least: float) -> bool:
    """Whether the whole interval is below the least allowed ratio: more than the spread of the rounds explains."""
    return ratio.high < least
