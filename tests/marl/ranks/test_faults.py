"""Ranks killed repeatedly, at random moments and during saves: the result equals that of an undisturbed run.

SNAKES_KILLS=200 makes it a soak test, SNAKES_SEED=N repeats one.
"""

import hashlib
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.forking import Forked, snakes
from helpers.training import SMOKE, assert_goes_on, logged, manifest, needs_proc, ranks_of, the_run, without_ranks

from marl.metrics.run_metrics import of_run

KILLS = int(os.environ.get("SNAKES_KILLS", "3"))
SEED = int(os.environ.get("SNAKES_SEED", str(random.SystemRandom().randrange(10**6))))
SAVED, LOGGED = 4, 2  # episodes between two checkpoints, and two log lines
END = 2 * KILLS + 4 * SAVED  # episodes; near the end, ranks are killed only during their start
AT_START = ("as it starts", "while it starts")
LIMIT = 60 + 30 * KILLS  # seconds
PATIENCE = 60  # seconds to wait for a moment that may not come again
STAGE = 0.0005  # seconds between two looks for a stage of a save, which passes quickly
WORDS = [
    "train", "--config", SMOKE, "--device", "cpu", "--matches", "4", "--turns", "20", "--updates", "1",
    "--max_episodes", str(END), "--log_interval", str(LOGGED), "--save_interval", str(SAVED), "--check_sync", "1",
    "--opponent_difficulty_strategy", "adaptive", "--window", "3", "--up", "0.01", "--down", "0",
    "--eval_interval", "12", "--eval_matches", "1", "--eval_opponents", "level0",
]  # fmt: skip
GOING_ON = re.compile(r"resumed from +.+ \(episode ([\d,]+)\), (.*)\n")
LEFT_OUT = re.compile(r"no checkpoint at episode (\d+): ")
EPISODE = re.compile(r"episode (\d+)/")


class Training:
    """Two ranks under our launcher, in forked processes, and their output so far."""

    def __init__(self, runs: Path, *words: str, fault: str = "") -> None:
        self.begin = time.monotonic()
        words = (*WORDS, *words, "--runs_dir", str(runs), "--distributed")
        environment = without_ranks() | {"NPROC": "2", "PLANTED": f"0:patience:1 1:patience:1 {fault}"}
        environment["MARKS"] = str(runs.parent)
        self.process = Forked(snakes, *words, environment=environment)
        self.checkpoints, self.out, self.err = runs / "snakes_3v3" / "team" / "checkpoints", [], []
        self._threads = [
            threading.Thread(target=lines.extend, args=[stream], daemon=True)
            for lines, stream in ((self.out, self.process.stdout), (self.err, self.process.stderr))
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            ranks = self.ranks()
            self.process.kill()
            for pid in ranks.values():
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def running(self) -> bool:
        assert time.monotonic() - self.begin < LIMIT, "".join(self.out[-20:] + self.err[-20:])
        return self.process.poll() is None

    def ranks(self) -> dict[int, int]:
        """Process ids by rank; empty while they start."""
        try:
            return ranks_of(self.process.pid)
        except (OSError, ValueError):
            return {}

    def episode(self) -> int:
        """The last episode in the output."""
        return next((int(found[1]) for line in self.out[::-1] if (found := EPISODE.match(line))), 0)

    def pointer(self) -> int:
        """The episode that `last` points to."""
        try:
            return int((self.checkpoints / "last").read_text().strip().removeprefix("episode_"))
        except OSError:
            return 0

    def wait(self, until: Callable[[], bool], every: float = 0.01) -> bool:
        """Wait for the condition, and look for it every so many seconds; false if the training or PATIENCE ends
        first."""
        deadline = time.monotonic() + PATIENCE
        while self.running and time.monotonic() < deadline:
            if until():
                return True
            time.sleep(every)
        return False

    def finish(self) -> int:
        self.wait(lambda: not self.running)
        while self.running:
            time.sleep(0.05)
        for thread in self._threads:
            thread.join(PATIENCE)
        return self.process.returncode


def moments(training: Training, dice: random.Random) -> dict[str, Callable[[], bool]]:
    """Conditions to wait for from now on. Stages of a save pass quickly: a missed stage ends with the save."""
    lines, there, before = len(training.out), training.checkpoints, training.pointer()
    episodes, moment = training.episode() + dice.randrange(1, 2 * SAVED), time.monotonic() + dice.random()

    def changed() -> bool:
        return training.pointer() != before

    def draft(file: str) -> bool:
        return changed() or any(there.glob(f".saving-*{file}"))

    return {
        "as it starts": lambda: len(training.ranks()) == 2,
        "while it starts": lambda: len(training.ranks()) == 2 and time.monotonic() > moment,
        "when it has started": lambda: any(line.startswith("opponents ") for line in training.out[lines:]),
        "on the way": lambda: training.episode() >= episodes,
        "at a log line": lambda: any(EPISODE.match(line) for line in training.out[lines:]),
        "when a save begins": lambda: draft(""),
        "when a save is half written": lambda: draft("/state.pt"),
        "when a save is written": lambda: draft("/manifest.json"),
        "when a save is renamed": lambda: changed() or (there / f"episode_{before + SAVED}").exists(),
        "when the pointer has changed": changed,
    }


def weights_of(run: Path) -> str:
    last = (run / "checkpoints" / "last").read_text().strip()
    return hashlib.sha256((run / "checkpoints" / last / "weights.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The same run without any kill."""
    runs = tmp_path_factory.mktemp("peace") / "runs"
    with Training(runs, "--run_name", "team") as peace:
        assert peace.finish() == 0, "".join(peace.err)
    return the_run(runs)


def assert_same_end(run: Path, undisturbed: Path) -> None:
    assert manifest(run, END)["world_size"] == 2
    assert weights_of(run) == weights_of(undisturbed)
    values = [[of_run(line) for line in logged(each)] for each in (run, undisturbed)]
    assert values[0] == values[1]
    assert_goes_on(run, END)
    assert not [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]


@needs_proc
def test_ranks_killed_again_and_again_end_as_if_nothing_had_happened(tmp_path, undisturbed) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    dice = random.Random(SEED)
    told = []
    with Training(tmp_path / "killed", "--max_restarts", str(10 * KILLS), "--run_name", "team") as training:
        deck: list[str] = []
        while training.running and len(told) < KILLS:
            now = moments(training, dice)
            if not deck:
                deck = dice.sample([*now, *AT_START], len(now) + len(AT_START))
            name = deck.pop() if training.episode() < END - 3 * SAVED else dice.choice(AT_START)
            until = now[name]
            victim = dice.choice((0, 1))
            if not training.wait(until, every=STAGE if name.startswith("when a save") else 0.01):
                continue
            ranks = training.ranks()
            if len(ranks) < 2:
                continue
            told.append((name, victim, training.episode(), training.pointer(), len(_starts(training))))
            os.kill(ranks[victim], signal.SIGKILL)
            print(f"{time.monotonic() - training.begin:5.1f} s: killed rank {victim} {name}, episode {told[-1][2]}")
            # The next kill is for new ranks.
            training.wait(lambda old=ranks: not old.items() & training.ranks().items())
        code = training.finish()
    print("".join(training.err), file=sys.stderr)
    assert code == 0
    assert len(told) == KILLS
    assert_same_end(the_run(tmp_path / "killed"), undisturbed)
    starts, again = _starts(training), []
    for name, victim, episode, pointer, before in told:
        if len(starts) == before:
            continue  # the run was complete: no start after this kill
        went_on, how = starts[before]
        assert how == "bit-exactly"
        assert went_on >= pointer, f"what was saved when rank {victim} was killed {name} is lost"
        again.append(episode - went_on)
        # Ranks write a checkpoint in the background. If one is killed meanwhile, the episodes during that write are
        # lost as well, with those of checkpoints that were left out because of it. Rank 0 tells which; if it is the
        # one that is killed, it may not have told the last.
        left_out = len([at for at in _left_out(training) if went_on < at <= episode + SAVED]) + (victim == 0)
        most = 2 * SAVED - 1 + SAVED * left_out
        assert episode - went_on <= most, f"{episode - went_on} episodes again: rank {victim} killed {name}"
    print(f"episodes played again: {again}")


def _left_out(training: Training) -> set[int]:
    """The episodes whose checkpoints were left out: the disk was busy."""
    found = [LEFT_OUT.match(line) for line in training.out]
    return {int(each[1]) for each in found if each}


def _starts(training: Training) -> list[tuple[int, str]]:
    """The episode from which each start went on, and how; without the first start."""
    found = [GOING_ON.match(line) for line in training.out]
    return [(int(each[1].replace(",", "")), each[2]) for each in found if each]


@needs_proc
def test_ranks_killed_in_an_update_a_start_an_evaluation_and_a_save_end_as_if_nothing_had_happened(
    tmp_path, undisturbed
) -> None:
    kills = ["1:kill:9", "0:restore:1", "1:evaluation:1", "0:middle:2", "1:restore:1"]
    faults = " ".join(f"{kill}:once" for kill in kills)
    with Training(tmp_path / "killed", "--max_restarts", "9", "--run_name", "team", fault=faults) as training:
        assert training.finish() == 0, "".join(training.err)
    assert len(list(tmp_path.glob("*-once"))) == len(kills)
    assert {how for _, how in _starts(training)} == {"bit-exactly"}
    assert_same_end(the_run(tmp_path / "killed"), undisturbed)


@needs_proc
def test_a_run_without_a_name_stays_one_run_when_it_starts_again(tmp_path) -> None:
    runs, words = tmp_path / "runs", ("--max_restarts", "2", "--max_episodes", "12")
    with Training(runs, *words, fault="1:kill:9:once") as training:
        assert training.finish() == 0, "".join(training.err)
    run = the_run(runs)
    assert re.fullmatch(r"run1_\d{8}_\d{6}", run.name)
    (again,) = _starts(training)
    assert again[1] == "bit-exactly"
    assert_goes_on(run, 12)
