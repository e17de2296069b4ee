"""Speeds kept in a file, and speeds compared with such a file or with another checkout.

A round is one `bench` in a process of its own. Against a checkout the rounds alternate, theirs/ours/ours/theirs, so
that a machine that gets slower or faster meanwhile does not count for one side. The ratio of a row is the mean over
rounds, with a 95 % interval from their spread.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.files import write_user_file
from marl.compute import machine
from marl.errors import UserError
from marl.storage.run_folder import git_state

FORMAT = 1
ROOT = Path(__file__).resolve().parent.parent.parent
# Factor of the standard error of a mean for a 95 % interval, by degrees of freedom (Student's t).
T95 = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
T95_MORE = 2.2

Rates = dict[str, float]  # row -> per second


class Ratio(NamedTuple):
    """A row's speed divided by that of the other side, and the ends of its 95 % interval."""

    row: str
    theirs: float  # per second, geometric mean of the rounds
    ours: float
    ratio: float
    low: float
    high: float


def save(path: Path, words: Sequence[str], rounds: int) -> int:
    """Measure and keep the speeds of all rounds; returns the number of rows."""
    found = [measure_round(words, ROOT) for _ in range(rounds)]
    state = git_state() or {}
    document = {
        "format": FORMAT,
        "words": list(words),
        "date": time.strftime("%Y-%m-%d"),
        "commit": state.get("commit"),
        "machine": {"cpu": machine.processor(), "gpus": machine.gpus(), "versions": machine.versions()},
        "rounds": found,
    }
    write_user_file(path, (json.dumps(document, indent=1) + "\n").encode())
    return len(found[0])


def compare(other: str, words: Sequence[str], rounds: int) -> list[Ratio]:
    """Measure, and compare with a file of `save` or with another checkout of this program.

    words: the subject and its flags; for a file the subject is enough, and the flags are those of the file.
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
                found.append(measure_round(words, root))
        return ratios_of_pairs(theirs, ours)
    saved, theirs = _read(path)
    if list(words) not in (saved, saved[:1]):
        raise UserError(f"{other} is of `bench {' '.join(saved)}`; compare it with the same flags, or with none")
    return ratios_of_sets(theirs, [measure_round(saved, ROOT) for _ in range(rounds)])


def _read(path: Path) -> tuple[list[str], list[Rates]]:
    """The words and the rounds of a file of `save`."""
    try:
        document = json.loads(path.read_text())
        saved, rounds = document["words"], [dict(each) for each in document["rounds"]]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is no file of bench --save") from None
    if document.get("format") != FORMAT:
        raise UserError(f"{path} has format {document.get('format')}; this program reads format {FORMAT}")
    return saved, rounds


def measure_round(words: Sequence[str], root: Path) -> Rates:
    """One bench in a process of its own, of the program in this folder."""
    command = [sys.executable, "-m", "marl", "bench", *words, "--json"]
    settings = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)
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


def ratios_of_pairs(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[Ratio]:
    """Of rounds that were measured one after the other."""
    found = []
    for row in _common_rows(theirs, ours):
        logs = [math.log(mine[row] / other[row]) for other, mine in zip(theirs, ours, strict=True)]
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        found.append(_ratio(row, theirs, ours, _t95(len(logs) - 1) * error))
    return found


def ratios_of_sets(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[Ratio]:
    """Of rounds that were measured at different times."""
    found = []
    for row in _common_rows(theirs, ours):
        spread = 0.0
        for rounds in (theirs, ours):
            logs = [math.log(each[row]) for each in rounds]
            spread += statistics.variance(logs) / len(logs) if len(logs) > 1 else math.inf
        freedom = min(len(theirs), len(ours)) - 1
        found.append(_ratio(row, theirs, ours, _t95(freedom) * math.sqrt(spread)))
    return found


def _common_rows(theirs: Sequence[Rates], ours: Sequence[Rates]) -> list[str]:
    rows = [row for row in ours[0] if all(row in each for each in (*theirs, *ours))]
    if not rows:
        raise UserError("no row was measured on both sides; give the same flags")
    return rows


def _ratio(row: str, theirs: Sequence[Rates], ours: Sequence[Rates], half: float) -> Ratio:
    before, now = (statistics.geometric_mean(each[row] for each in rounds) for rounds in (theirs, ours))
    ratio = now / before
    high = ratio * math.exp(half) if half < 100 else math.inf
    return Ratio(row, before, now, ratio, ratio * math.exp(-half), high)


def _t95(freedom: int) -> float:
    return T95[freedom] if freedom < len(T95) else T95_MORE


def table(ratios: Sequence[Ratio], least: float) -> str:
    """The ratios as a user reads them; rows that are surely below `least` are marked."""
    width = max(len(each.row) for each in ratios)
    lines = [f"{'per second':{width}} {'theirs':>14} {'here':>14} {'ratio':>6}  95 % interval"]
    for each in ratios:
        mark = f"  below {least:g}" if is_below(each, least) else ""
        interval = f"{each.low:.3f} to {each.high:.3f}"
        lines.append(f"{each.row:{width}} {each.theirs:14,.0f} {each.ours:14,.0f} {each.ratio:6.3f}  {interval}{mark}")
    return "\n".join(lines)


def is_below(ratio: Ratio, least: float) -> bool:
    """Whether the whole interval is below the least allowed ratio: more than the spread of the rounds explains."""
    return ratio.high < least
