"""One run on two ranks that is killed again and again, and its undisturbed twin: both must end equal to the bit.

    python tests/soak.py --kills 100                 # about a quarter of an hour on two free cores
    python tests/soak.py --kills 1000 --seed 7
    python tests/soak.py --kills 100 --fault_tolerant       # ranks go on from a snapshot in memory
    python tests/soak.py --every 15 --episodes 4000 [--fault_tolerant]      # a rank every 15 s: goodput of both ways
    python tests/soak.py --fuzz 5000                 # random command lines and damaged files, without any kill

Killed by kill -9: a rank, the launcher, or the whole run; at a random moment, in a stage of a save, in an evaluation.
After each kill the same command starts again; with --fault_tolerant only after those of the launcher or of the run.
The end: the weights and all counters of every kept checkpoint are those of the twin, no process is left, no file is
left, no metric is there twice. Prints goodput: useful updates per second beside those of the twin. Exit code 1 if
anything differs. No part of ./test.sh: it takes as long as you let it.
"""

import argparse
import contextlib
import itertools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.forking import Forked, snakes  # noqa: E402
from helpers.planted import STAGES, STAGES_OF_A_PART  # noqa: E402
from helpers.resumed import assert_equal, measured, saved  # noqa: E402
from helpers.training import RANKS, ranks_of, without_ranks  # noqa: E402

EPISODES_PER_KILL = 10  # more than between two checkpoints, so that the run gets on
EPISODES_PER_LOSS = 30  # with --fault_tolerant: what a run makes between two kills, about
PATIENCE = "0:patience:1 1:patience:1"  # seconds a rank waits for the others when one is lost; 5 s otherwise
START_LIMIT = 600  # seconds for one start of the run
ORPHAN_LIMIT = 20  # seconds in which all ranks must be gone after their launcher
KILLERS = ("rank", "launcher", "run")
# Intervals of evaluations and checkpoints in episodes, so short that kills hit them; and as in a run of some minutes.
OFTEN, SELDOM = ("12", "4"), ("1000", "100")


class Plan(NamedTuple):
    """What is done to the run."""

    episodes: int
    kills: int
    every: float | None  # seconds between two kills of a rank; None: random kills of all kinds
    fault_tolerant: bool

    def words(self, runs: Path) -> list[str]:
        evaluations, saves = OFTEN if self.every is None else SELDOM
        often = ["--eval_interval", evaluations, "--eval_matches", "2", "--save_interval", saves, "--keep_last", "3"]
        name = ["--run_name", "team", "--runs_dir", str(runs), "--timeout", "60"]
        ranks = ["--fault_tolerant", "--max_restarts", "20"] if self.fault_tolerant else ["--distributed"]
        return [*RANKS, *often, "--max_episodes", str(self.episodes), *name, *ranks]


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


class Start:
    """One start of the run."""

    def __init__(self, words: list[str], fault: str, tmp: Path, limit: float) -> None:
        self.limit = limit
        variables = without_ranks() | {"NPROC": "2", "PLANTED": f"{PATIENCE} {fault}", "TMPDIR": str(tmp)}
        variables["MARKS"] = self.marks = tempfile.mkdtemp(dir=tmp.parent)  # of faults that have happened
        self.process = Forked(snakes, *words, environment=variables)
        self.ranks: dict[int, int] = {}
        self.began = time.monotonic()
        self._output: list[str] = []
        # Read at once: a pipe that is full would stop the run.
        streams = (self.process.stdout, self.process.stderr)
        self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: TextIO) -> None:
        for line in stream:
            if stream is self.process.stderr:
                self._output.append(line)

    def errors(self) -> str:
        """All that it printed on stderr, once all its processes have ended."""
        for reader in self._readers:
            reader.join(ORPHAN_LIMIT)
        return "".join(self._output)

    def look(self) -> None:
        """Note the process ids of the ranks."""
        with contextlib.suppress(OSError, ValueError):  # it ends at this moment
            self.ranks = ranks_of(self.process.pid) or self.ranks

    def kill(self, who: str, rng: random.Random) -> None:
        pids = {"rank": rng.sample(list(self.ranks.values()), 1) if self.ranks else [], "launcher": [self.process.pid]}
        pids["run"] = [*pids["launcher"], *self.ranks.values()]
        for pid in pids[who]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait(self, kills: Iterator[tuple[float, str]], rng: random.Random, killed: list[str]) -> int:
        """Its exit code. kills: (seconds after the ranks have started or after the last kill, who is killed); those
        that were killed are added to `killed`."""
        since, next_kill = None, next(kills, None)
        while self.process.poll() is None:
            self.look()
            if len(self.ranks) == 2 and since is None:
                since = time.monotonic()
            if next_kill is not None and since is not None and time.monotonic() - since > next_kill[0]:
                self.kill(next_kill[1], rng)
                killed.append(next_kill[1])
                since, next_kill = time.monotonic(), next(kills, None)
            if time.monotonic() - self.began > self.limit:
                self.kill("run", rng)
                raise AssertionError(f"one start took more than {self.limit:g} s")
            time.sleep(0.02)
        return self.process.wait()

    def close(self) -> None:
        """Leave no process behind, also if this program is stopped."""
        if self.process.poll() is None:
            self.kill("run", random.Random())

    def check_no_orphans(self) -> float:
        """Seconds until the last rank was gone."""
        began = time.monotonic()
        while left := [pid for pid in self.ranks.values() if _lives(pid)]:
            if time.monotonic() - began > ORPHAN_LIMIT:
                raise AssertionError(f"ranks {left} live on without their launcher")
            time.sleep(0.02)
        return time.monotonic() - began


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def train_undisturbed(folder: Path, plan: Plan) -> float:
    """Seconds of the twin."""
    start = Start(plan.words(folder / "twin"), "", folder / "tmp", math.inf)
    with contextlib.closing(start):
        code = start.wait(iter(()), random.Random(), [])
    assert code == 0, start.errors()
    return time.monotonic() - start.began


def kills_of_one_start(plan: Plan, left: int, rng: random.Random) -> tuple[str, Iterable[tuple[float, str]]]:
    """A planted fault or none, and kills from outside; the last one ends the start, except with `every`."""
    if plan.every is not None:
        return "", itertools.repeat((plan.every, "rank"), left if plan.fault_tolerant else 1)
    if left <= 0:
        return "", []
    if not plan.fault_tolerant:
        who, fault, seconds = choose_kill(rng)
        return fault, [] if fault else [(seconds, who)]
    kills = [(rng.uniform(0.0, 4.0), "rank") for _ in range(min(left - 1, rng.randint(0, 8)))]
    _, fault, _ = choose_kill(rng)
    fault = f"{fault}:once" if fault and not fault.endswith(":launcher") else ""
    return fault, [*kills, (rng.uniform(0.0, 4.0), rng.choice(KILLERS[1:]))]


def train_with_kills(folder: Path, plan: Plan, rng: random.Random) -> tuple[float, Counter[str]]:
    """Seconds of the disturbed run, and how often who was killed where."""
    began, done, slowest = time.monotonic(), Counter[str](), 0.0
    words = plan.words(folder / "killed")
    while True:
        left = plan.kills - done.total()
        fault, kills = kills_of_one_start(plan, left, rng)
        killed: list[str] = []
        start = Start(words, fault, folder / "tmp", START_LIMIT)
        with contextlib.closing(start):
            code = start.wait(iter(kills), rng, killed)
        slowest = max(slowest, start.check_no_orphans())
        err = start.errors()
        assert "Traceback" not in err, err
        done.update(f"{who} anywhere" for who in killed)
        if fault and (not plan.fault_tolerant or os.listdir(start.marks)):
            done[f"{'launcher' if fault.endswith(':launcher') else 'rank'} {fault.split(':')[1]}"] += 1
        shutil.rmtree(start.marks)
        if code == 0:
            assert plan.every or done.total() >= plan.kills, f"only {done.total()} kills; the run needs more episodes"
            print(f"the last rank was gone at most {slowest:.2f} s after its launcher", flush=True)
            return time.monotonic() - began, done
        assert left > 0, f"exit code {code} without a kill: {err}"
        last = folder / "killed" / "snakes_3v3" / "team" / "checkpoints" / "last"
        at = last.read_text().strip() if last.exists() else "nothing saved"
        print(f"{done.total()} kills, {time.monotonic() - began:.0f} s, {at} of {plan.episodes}", flush=True)


def check_equal(folder: Path) -> None:
    twin, killed = (folder / name / "snakes_3v3" / "team" for name in ("twin", "killed"))
    kept = [sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (twin, killed)]
    assert set(kept[1]) <= {*kept[0], *(name for name in kept[1] if name.startswith("episode_"))}, kept
    last = int((twin / "checkpoints" / "last").read_text().removeprefix("episode_"))
    assert (killed / "checkpoints" / "last").read_text() == f"episode_{last}\n"
    assert_equal(saved(killed, last), saved(twin, last))
    assert_equal(measured(killed), measured(twin))


def check_no_files_left(folder: Path) -> None:
    twin, killed = (folder / name / "snakes_3v3" / "team" for name in ("twin", "killed"))
    left = [path for path in killed.rglob("*") if path.name.startswith((".", "owner"))]
    assert not left, left
    names = [{path.name for path in run.iterdir() if "tfevents" not in path.name} for run in (twin, killed)]
    assert names[0] == names[1], names
    others = [path.name for path in (folder / "killed" / "snakes_3v3").iterdir()]
    assert others == ["team"], others
    assert not list((folder / "tmp").iterdir()), list((folder / "tmp").iterdir())


def fuzz(cases: int, seed: int) -> int:
    """Run many cases of helpers/fuzzing.py; returns the exit code."""
    from helpers.fuzzing import Fuzz, Problem

    ends, problems, slowest = Counter[str](), 0, (0.0, 0)
    with tempfile.TemporaryDirectory(prefix="snakes-fuzz-") as folder:
        case = Fuzz(Path(folder), seed)
        for number in range(cases):
            began = time.process_time()
            try:
                ends[case.run(number)] += 1
            except Problem as problem:
                problems += 1
                print(f"--- {problem}", flush=True)
            slowest = max(slowest, (time.process_time() - began, number))
            if (number + 1) % 500 == 0:
                print(f"{number + 1} cases, {problems} problems", flush=True)
    print(", ".join(f"{what} ({number})" for what, number in sorted(ends.items())))
    seconds, number = slowest
    done = f"{cases} cases with seed {seed}: {problems} problems"
    print(f"{done}; the slowest, case {number}, took {seconds:.1f} s of CPU time")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the runs go, and stay; default: a folder that is removed")
    parser.add_argument("--fuzz", type=int, metavar="N", help="instead: N random command lines and damaged files")
    parser.add_argument("--fault_tolerant", action="store_true", help="train with --fault_tolerant")
    parser.add_argument("--every", type=float, metavar="S", help="kill a rank every S seconds, to the end of the run")
    parser.add_argument("--episodes", type=int, help="length of the run; default: by the number of kills")
    args = parser.parse_args()
    if args.fuzz is not None:
        return fuzz(args.fuzz, args.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = args.folder or Path(tempfile.mkdtemp(prefix="snakes-soak-"))
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    each = EPISODES_PER_LOSS if args.fault_tolerant else EPISODES_PER_KILL
    rng, episodes = random.Random(args.seed), args.episodes or 16 + args.kills * each
    kills = args.kills if args.every is None else 10**9
    plan = Plan(episodes, kills, args.every, args.fault_tolerant)
    how = f"{kills} kills" if args.every is None else f"a kill every {args.every:g} s"
    print(f"seed {args.seed}, {how}, {episodes} episodes, in {folder}", flush=True)
    try:
        undisturbed = train_undisturbed(folder, plan)
        print(f"undisturbed: {undisturbed:.0f} s", flush=True)
        disturbed, done = train_with_kills(folder, plan, rng)
        check_equal(folder)
        check_no_files_left(folder)
    except (AssertionError, subprocess.SubprocessError) as error:
        print(f"FAILED (seed {args.seed}, files in {folder}): {error}", file=sys.stderr)
        return 1
    print(", ".join(f"{what} {number}" for what, number in sorted(done.items())))
    updates = list(measured(folder / "killed" / "snakes_3v3" / "team").values())
    total = max(values.get("train/updates", 0) for values in updates)
    print(f"equal to the bit after {done.total()} kills, one every {disturbed / max(1, done.total()):.1f} s")
    print(
        f"goodput {total / disturbed:.2f} updates/s, {undisturbed / disturbed:.0%} of the undisturbed "
        f"{total / undisturbed:.2f} updates/s"
    )
    if args.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
