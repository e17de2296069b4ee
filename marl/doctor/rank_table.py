"""`snakes doctor --ranks N`: what more ranks bring on this machine, and whether they train the same weights.

It measures as `bench scaling` does, with the learners that are trained most. The result is a text to be sent: a table
for docs/scaling.md under the machine, the versions and the command.
"""

import sys
from collections.abc import Sequence
from typing import Any

from marl.bench.scaling import ScalingBench
from marl.cli.arguments import flag_names
from marl.doctor.check import Check

LEARNERS = ("ddpg", "ppo")
SECONDS = 5.0  # for each number of ranks
SEND = (
    "Several GPUs, or more than 16 cores? Please send the lines above: an issue of the repository with the template "
    "`Speed of ranks`, for docs/scaling.md."
)


def numbers_of_ranks(most: int) -> list[int]:
    """1, 2, 4, 8, ... and the largest number itself."""
    return sorted({most, *(2**k for k in range(most.bit_length()))})


def examine(most: int, flags: Sequence[str], seconds: float) -> tuple[list[dict[str, Any]], list[Check]]:
    """The reports of `bench scaling` for each learner, and whether all ranks end with the same parameters.

    flags: of training; with --algo only that learner is measured.
    """
    learners = [[]] if "--algo" in flag_names(flags) else [["--algo", name] for name in LEARNERS]
    reports, checks = [], []
    for learner in learners:
        bench = ScalingBench([*flags, *learner], numbers_of_ranks(most), seconds)
        print(f"snakes: measuring {bench.algo} with 1 to {most} ranks ...", file=sys.stderr, flush=True)
        report = bench.report()
        reports.append(report)
        checks += [_equal_parameters(report["algo"], row) for row in report["rows"] if row["ranks"] > 1]
    return reports, checks


def _equal_parameters(algo: str, row: dict[str, Any]) -> Check:
    name, problem = f"{algo}, {row['ranks']} ranks", row["out_of_sync"]
    if problem:
        return Check(name, False, problem, "do not train on more than one rank here; try --backend gloo")
    return Check(name, True, f"the same parameters on all of them after {row['updates']:,} updates")


def table(reports: Sequence[dict[str, Any]]) -> str:
    """All reports as one table in Markdown, with their notes."""
    heads = ["learner", "ranks", "sums over", "matches per rank", "env steps/s", "speedup", "efficiency"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for report in reports:
        for row in report["rows"]:
            speed = f"{row['env_steps_per_second']:,.0f} | {row['speedup']:.2f} | {row['efficiency']:.0%}"
            sums = row["backend"] or "-"
            lines.append(f"| {report['algo']} | {row['ranks']} | {sums} | {row['matches_per_rank']:,} | {speed} |")
    notes = dict.fromkeys(note for report in reports for note in report["notes"])
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])
