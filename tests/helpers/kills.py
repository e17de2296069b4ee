"""Which kills a run of tests/soak.py takes: who, when, and where."""

import random
from collections.abc import Iterator

from helpers.planted import STAGES, STAGES_OF_A_PART

KILLERS = ("rank", "launcher", "run")
STARTS_KILLED = 0.07  # share of the kills with --pace that hit a launcher or a whole run
FAULTS_PER_START = 2  # kills in saves and evaluations with --pace
FAULTS_OF_LAUNCHER = 0.3  # share of the starts with --pace in which one of these kills hits the launcher


def choose_kill(rng: random.Random) -> tuple[str, str, float]:
    """(who is killed, planted fault or empty, seconds after the ranks have started)."""
    who = rng.choice(KILLERS)
    rank, number = rng.randrange(2), rng.randint(1, 2)
    where = rng.choice(("anywhere", "save", "save", "evaluation", "cycle"))
    if where == "anywhere" or who == "run":
        return who, "", rng.uniform(0.0, 8.0)
    stages = STAGES if rank == 0 else STAGES_OF_A_PART
    what = {"save": rng.choice(list(stages)), "evaluation": "evaluation", "cycle": "kill"}[where]
    number = rng.randint(1, 12) if where == "cycle" else number if where == "save" else 1
    return who, f"{rank}:{what}:{number}{':launcher' if who == 'launcher' else ''}", 0.0


def choose_kills(left: int, rng: random.Random) -> tuple[str, list[tuple[float, str]]]:
    """Of one start with --fault_tolerant: a planted fault or none, and kills from outside; the last ends the start."""
    kills = [(rng.uniform(0.0, 4.0), "rank") for _ in range(min(left - 1, rng.randint(0, 8)))]
    _, fault, _ = choose_kill(rng)
    fault = f"{fault}:once" if fault and not fault.endswith(":launcher") else ""
    return fault, [*kills, (rng.uniform(0.0, 4.0), rng.choice(KILLERS[1:]))]


def choose_paced_kills(pace: float, left: int, rng: random.Random) -> tuple[str, list[tuple[float, str]]]:
    """Of one start with --pace: planted faults, and kills from outside up to one that ends the start.

    Kills from outside are so much rarer that the pace is that of all kills.
    """
    faults: list[str] = []
    while len(faults) < FAULTS_PER_START:
        _, fault, _ = choose_kill(rng)
        if fault and ":kill:" not in fault:
            faults.append(f"{fault.removesuffix(':launcher')}:once")
    if rng.random() < FAULTS_OF_LAUNCHER:  # it mostly comes with the first checkpoint, so not in every start
        faults[0] = faults[0].replace(":once", ":launcher")
    kills: list[tuple[float, str]] = []
    while len(kills) < left and (not kills or kills[-1][1] == "rank"):
        who = rng.choice(KILLERS[1:]) if rng.random() < STARTS_KILLED else "rank"
        kills.append((rng.uniform(0.0, 2 * pace * (1 + STARTS_KILLED * FAULTS_PER_START)), who))
    return " ".join(faults), kills


def planted_kills(faults: str, marks: list[str], fault_tolerant: bool, was_launcher: bool) -> Iterator[str]:
    """Who was killed where by the planted faults of one start. marks: of faults that have happened in a rank.
    was_launcher: whether a launcher was killed that nobody killed from outside."""
    for fault in faults.split():
        is_launcher, what = fault.endswith(":launcher"), fault.split(":")[1]
        if is_launcher and (was_launcher or not fault_tolerant):
            yield f"launcher {what}"
        elif not is_launcher and (fault.replace(":", "-") in marks or not fault_tolerant):
            yield f"rank {what}"
