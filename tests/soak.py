"""One run on two ranks that is killed again and again, and its undisturbed twin: both must end equal to the bit.

    python tests/soak.py --kills 100                 # about a quarter of an hour on two free cores
    python tests/soak.py --kills 1000 --seed 7
    python tests/soak.py --every 15 --episodes 4000                         # a rank every 15 s
    python tests/soak.py --kills 1000 --pace 8 [--minutes 60]               # all kinds, every 8 s on average
    python tests/soak.py --fuzz 5000                 # random command lines and damaged files, without any kill

Killed by kill -9: a rank, the launcher, or the whole run; at a random moment, in a stage of a save, in an evaluation.
After the kill of a rank the launcher starts all ranks again (--max_restarts), from the last checkpoint; after those of
the launcher or of the run the same command starts again.
With --pace the length of the run follows from the number of kills and the measured speed. TERM or --minutes ends the
kills early, not the run.

The end: the weights and all counters of every kept checkpoint are those of the twin, no process is left, no file is
left, no metric is there twice. Prints goodput: useful updates per second beside those of the twin. Exit code 1 if
anything differs. No part of ./test.sh: it takes as long as you let it.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.forking import Forked, snakes  # noqa: E402
from helpers.kills import KILLERS, choose_kills, choose_paced_kills, planted_kills  # noqa: E402
from helpers.resumed import assert_equal, measured, saved  # noqa: E402
from helpers.training import RANKS, ranks_of, without_ranks  # noqa: E402

EPISODES_PER_KILL = 30  # what a run makes between two kills, about
PATIENCE = "0:patience:1 1:patience:1"  # seconds a rank waits for the others when one is lost; 5 s otherwise
START_LIMIT = 600  # seconds for one start of the run
ORPHAN_LIMIT = 20  # seconds in which all ranks must be gone after their launcher
# Intervals of evaluations and checkpoints in episodes, so short that kills hit them; and as in a run of some minutes.
OFTEN, SELDOM = ("12", "4"), ("1000", "100")
# With --pace, at about 25 episodes/s: an evaluation every 10 s, a checkpoint every 1.6 s.
PACED = ("240", "40")
PROBE = 400  # episodes that measure the speed
STRETCH = 100  # log lines over which a speed is taken, about 20 s
GOODPUT_MOST = 0.9  # with --pace; sets the length of the run, so that all kills come before its end


class Plan(NamedTuple):
    """What is done to the run."""

    episodes: int
    kills: int
    every: float | None  # seconds between two kills of a rank; None: random kills of all kinds
    pace: float | None = None  # mean seconds between two kills of all kinds
    ended: Callable[[], bool] = lambda: False  # whether no more kills are wanted

    def words(self, runs: Path) -> list[str]:
        evaluations, saves = PACED if self.pace else OFTEN if self.every is None else SELDOM
        often = ["--eval_interval", evaluations, "--eval_matches", "2", "--save_interval", saves, "--keep_last", "3"]
        name = ["--run_name", "team", "--runs_dir", str(runs), "--timeout", "60"]
        ranks = ["--distributed", "--max_restarts", "1000000"]
        return [*RANKS, *often, "--max_episodes", str(self.episodes), *name, *ranks]


class Start:
    """One start of the run."""

    def __init__(self, words: list[str], fault: str, tmp: Path, limit: float) -> None:
        self.limit = limit
        variables = without_ranks() | {"NPROC": "2", "PLANTED": f"{PATIENCE} {fault}", "TMPDIR": str(tmp)}
        variables["MARKS"] = self.marks = tempfile.mkdtemp(dir=tmp.parent)  # of faults that have happened
        self.process = Forked(snakes, *words, environment=variables)
        self.ranks: dict[int, int] = {}
        self.began = time.monotonic()
        self.last_kill: float | None = None  # from outside
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

    def kill(self, who: str, rng: random.Random) -> bool:
        """Whether anything was there to be killed."""
        pids = {"rank": rng.sample(list(self.ranks.values()), 1) if self.ranks else [], "launcher": [self.process.pid]}
        pids["run"] = [*pids["launcher"], *self.ranks.values()]
        found = False
        for pid in pids[who]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                found = True
        return found

    def wait(
        self, kills: Iterator[tuple[float, str]], rng: random.Random, killed: list[str], plan: Plan | None = None
    ) -> int:
        """Its exit code. kills: (seconds after the ranks have started or after the last kill, who is killed); those
        that were killed are added to `killed`."""
        since, next_kill = None, next(kills, None)
        while self.process.poll() is None:
            self.look()
            if len(self.ranks) == 2 and since is None:
                since = time.monotonic()
            if plan is not None and plan.ended():
                next_kill = None
            is_due = next_kill is not None and since is not None and time.monotonic() - since > next_kill[0]
            if is_due and self.kill(next_kill[1], rng):
                killed.append(next_kill[1])
                self.last_kill = time.time()
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


def train_undisturbed(folder: Path, plan: Plan, name: str = "twin") -> list[tuple[float, float]]:
    """(seconds since its start, updates) at every log line of an undisturbed run; kept beside the run."""
    words, kept = plan.words(folder / name), folder / f"{name}.json"
    if kept.exists():
        before = json.loads(kept.read_text())
        assert before["words"] == words, f"{kept} is of another run: {' '.join(before['words'])}"
        return before["lines"]
    began = time.time()
    start = Start(words, "", folder / "tmp", math.inf)
    with contextlib.closing(start):
        code = start.wait(iter(()), random.Random(), [])
    shutil.rmtree(start.marks)
    assert code == 0, start.errors()
    lines = [(seconds - began, updates) for seconds, updates in log_lines(folder / name)]
    kept.write_text(json.dumps({"words": words, "lines": lines}))
    return lines


def log_lines(runs: Path, last: int = 0) -> list[tuple[float, float]]:
    """(time of the clock, updates) of the log lines of a run, or of the last lines."""
    file = runs / "snakes_3v3" / "team" / "metrics.jsonl"
    lines = map(json.loads, file.read_text().splitlines()[-last:] if file.exists() else [])
    return [(line["time"], line["train/updates"]) for line in lines if "train/updates" in line]


def episodes_for(folder: Path, plan: Plan) -> int:
    """How long the run must be, for all its kills at their pace: by the speed of a short one."""
    lines = train_undisturbed(folder, plan._replace(episodes=PROBE), "probe")
    shutil.rmtree(folder / "probe")
    (folder / "probe.json").unlink()
    (begin, _), (end, _) = lines[len(lines) // 4], lines[-1]
    speed = PROBE * 3 / 4 / (end - begin)
    print(f"{speed:.1f} episodes/s", flush=True)
    return round(plan.kills * plan.pace * speed * GOODPUT_MOST)


def kills_of_one_start(plan: Plan, left: int, rng: random.Random) -> tuple[str, Iterable[tuple[float, str]]]:
    """Planted faults, and kills from outside; the last one ends the start, except with `every`."""
    if plan.every is not None:
        return "", itertools.repeat((plan.every, "rank"), left)
    if left <= 0 or plan.ended():
        return "", []
    if plan.pace is not None:
        return choose_paced_kills(plan.pace, left, rng)
    return choose_kills(left, rng)


class Disturbed(NamedTuple):
    """A run with kills."""

    began: float  # by the clock
    last_kill: float
    kills: Counter[str]  # how often who was killed where


def train_with_kills(folder: Path, plan: Plan, rng: random.Random, twin: list[tuple[float, float]]) -> Disturbed:
    began, slowest = time.time(), 0.0
    run = Disturbed(began, began, Counter())
    words = plan.words(folder / "killed")
    while True:
        left = plan.kills - run.kills.total()
        fault, kills = kills_of_one_start(plan, left, rng)
        killed: list[str] = []
        start = Start(words, fault, folder / "tmp", max(START_LIMIT, 2 * twin[-1][0]))
        with contextlib.closing(start):
            code = start.wait(iter(kills), rng, killed, plan)
        slowest = max(slowest, start.check_no_orphans())
        err = start.errors()
        assert "Traceback" not in err, err
        was_launcher = code == -signal.SIGKILL and not {*killed} & {*KILLERS[1:]}
        killed = [f"{who} anywhere" for who in killed]
        marks = {mark.name: mark.stat().st_mtime for mark in Path(start.marks).iterdir()}
        killed += planted_kills(fault, list(marks), was_launcher)
        shutil.rmtree(start.marks)
        run.kills.update(killed)
        end = time.time() if code else run.last_kill  # a kill has ended the start
        run = run._replace(last_kill=max(end, start.last_kill or 0.0, *marks.values(), run.last_kill))
        if code == 0:
            is_enough = run.kills.total() >= plan.kills or ((plan.every or plan.pace) and run.kills)
            assert is_enough, f"only {run.kills.total()} kills; the run needs more episodes"
            print(f"the last rank was gone at most {slowest:.2f} s after its launcher", flush=True)
            return run
        assert killed, f"exit code {code} without a kill: {err}"
        print(f"{run.kills.total()} kills: {goodput(folder, run, twin, STRETCH)}", flush=True)


def goodput(folder: Path, run: Disturbed, twin: list[tuple[float, float]], last: int = 0) -> str:
    """Useful updates per second up to the last kill, beside those of the twin. last: log lines to look at, or all."""
    done = max((updates for at, updates in log_lines(folder / "killed", last) if at <= run.last_kill), default=0)
    seconds, undisturbed = run.last_kill - run.began, speed_of(twin)
    share = f"{done / seconds / undisturbed:.0%} of the undisturbed {undisturbed:.2f} updates/s"
    return f"{done:,.0f} of {twin[-1][1]:,.0f} updates in {seconds:.0f} s, {done / seconds:.2f} updates/s, {share}"


def speed_of(lines: list[tuple[float, float]]) -> float:
    """Updates per second without the start. The median over stretches of the run: another program may disturb a few."""
    stretches = zip(lines, lines[STRETCH:], strict=False) if len(lines) > 2 * STRETCH else [(lines[0], lines[-1])]
    return statistics.median((last[1] - first[1]) / (last[0] - first[0]) for first, last in stretches)


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
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the runs go, and stay, also a twin for later; default: a folder that is removed",
    )
    parser.add_argument("--fuzz", type=int, metavar="N", help="instead: N random command lines and damaged files")
    parser.add_argument("--every", type=float, metavar="S", help="kill a rank every S seconds, to the end of the run")
    parser.add_argument("--pace", type=float, metavar="S", help="mean seconds between two kills of all kinds")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no kill after so many minutes of kills")
    parser.add_argument("--episodes", type=int, help="length of the run; default: by the number of kills")
    args = parser.parse_args()
    if args.fuzz is not None:
        return fuzz(args.fuzz, args.seed)
    if args.pace is not None and args.every is not None:
        parser.error("--pace goes without --every")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = args.folder or Path(tempfile.mkdtemp(prefix="snakes-soak-"))
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    kills = args.kills if args.every is None else 10**9
    plan = Plan(args.episodes or 16 + args.kills * EPISODES_PER_KILL, kills, args.every, args.pace)
    try:
        if args.pace is not None and args.episodes is None:
            plan = plan._replace(episodes=episodes_for(folder, plan))
        how = f"{kills} kills" if args.every is None else f"a kill every {args.every:g} s"
        print(f"seed {args.seed}, {how}, {plan.episodes} episodes, in {folder}", flush=True)
        twin = train_undisturbed(folder, plan)
        print(f"undisturbed: {twin[-1][0]:.0f} s", flush=True)
        stop, limit = threading.Event(), time.monotonic() + 60 * args.minutes
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        plan = plan._replace(ended=lambda: stop.is_set() or time.monotonic() > limit)
        run = train_with_kills(folder, plan, random.Random(args.seed), twin)
        check_equal(folder)
        check_no_files_left(folder)
    except (AssertionError, subprocess.SubprocessError) as error:
        print(f"FAILED (seed {args.seed}, files in {folder}): {error}", file=sys.stderr)
        return 1
    print(", ".join(f"{what} {number}" for what, number in sorted(run.kills.items())))
    total = run.kills.total()
    print(f"equal to the bit after {total} kills, one every {(run.last_kill - run.began) / max(1, total):.1f} s")
    print(f"goodput: {goodput(folder, run, twin)}")
    if args.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
