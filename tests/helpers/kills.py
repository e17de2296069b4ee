"""Which kills a run of tests/soak.py takes: who, when, and where."""

import random
from collections.abc import Iterator

from helpers.planted import STAGES, STAGES_OF_A_PART

KILLERS = ("rank", "launcher", "run")
STARTS_KILLED = 0.07  # share of the kills with --pace that hit a launcher or a whole run
FAULTS_PER_START = 2  # kills in saves and evaluations with --pace
FAULTS_OF_LAUNCHER = 0.3  # share of the starts with --pace in which one of these kills hits the launcher


def choose_fault(rng: random.Random) -> str:
    """A planted kill of a rank, once: in a save, in an evaluation or before a cycle."""
    rank, where = rng.randrange(2), rng.choice(("save", "save", "evaluation", "cycle"))
    stages = STAGES if rank == 0 else STAGES_OF_A_PART
    what = {"save": rng.choice(list(stages)), "evaluation": "evaluation", "cycle": "kill"}[where]
    number = {"save": rng.randint(1, 2), "evaluation": 1, "cycle": rng.randint(1, 12)}[where]
    return f"{rank}:{what}:{number}:once"


def choose_kills(left: int, rng: random.Random) -> tuple[str, list[tuple[float, str]]]:
    """Of one start of the launcher: a planted fault or none, and kills from outside; the last ends the start."""
    kills = [(rng.uniform(0.0, 4.0), "rank") for _ in range(min(left - 1, rng.randint(0, 8)))]
    fault = choose_fault(rng) if rng.random() < 0.5 else ""
    return fault, [*kills, (rng.uniform(0.0, 4.0), rng.choice(KILLERS[1:]))]


def choose_paced_kills(pace: float, left: int, rng: random.Random) -> tuple[str, list[tuple[float, str]]]:
    """Of one start with --pace: planted faults, and kills from outside up to one that ends the start.

    Kills from outside are so much rarer that the pace is that of all kills.
    """
    faults: list[str] = []
    while len(faults) < FAULTS_PER_START:
        fault = choose_fault(rng)
        if ":kill:" not in fault:
            faults.append(fault)
    if rng.random() < FAULTS_OF_LAUNCHER:  # it mostly comes with the first checkpoint, so not in every start
        faults[0] = faults[0].replace(":once", ":launcher")
    kills: list[tuple[float, str]] = []
    while len(kills) < left and (not kills or kills[-1][1] == "rank"):
        who = rng.choice(KILLERS[1:]) if rng.random() < STARTS_KILLED else "rank"
        kills.append((rng.uniform(0.0, 2 * pace * (1 + STARTS_KILLED * FAULTS_PER_START)), who))
    return " ".join(faults), kills


def planted_kills(faults: str, marks: list[str], was_launcher: bool) -> Iterator[str]:
    """Who was killed where by the planted faults of one start. marks: of faults that have happened in a rank.
    was_launcher: whether a launcher was killed that nobody killed from outside."""
    for fault in faults.split():
        is_launcher, what = fault.endswith(":launcher"), fault.split(":")[1]
        if is_launcher and was_launcher:
            yield f"launcher {what}"
        elif not is_launcher and fault.replace(":", "-") in marks:
            yield f"rank {what}"
