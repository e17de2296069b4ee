"""An evaluation that is killed at a random moment takes every process of its sandbox along."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.command import ROOT
from helpers.processes import wait_until
from helpers.submissions import children, written

from opponents.sandbox.process import why_not_sandboxed

pytestmark = pytest.mark.skipif(
    why_not_sandboxed() is not None, reason=f"this system cannot sandbox: {why_not_sandboxed()}"
)

SEED = 1
KILLS, SLOW_KILLS = 2, 40
SECONDS = 120
# It catches what it can, has threads at work, and hangs every now and then.
STUBBORN = """
import numpy, random, signal, threading
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
def burn():
    while True: pass
threading.Thread(target=burn, daemon=True).start()
def my_controller(observation, action_space, is_act_continuous):
    while random.random() < 0.01: pass
    return [[0, 0, 0, 1]]
"""
EVALUATION = """
import sys
from pathlib import Path
from opponents.sandbox.process import Host
host = Host(Path(sys.argv[1]), sandboxed=True)
matches = [host.start() for _ in range(4)]
for match in matches:
    match.post({"seed": 1})
    match.post({"snakes": [2] * 1000, "observation": {}})
sys.stdin.read()
"""


def in_session(session: int) -> list[int]:
    """The processes of a session: a sandbox never leaves the one that its first process has begun."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(file.parent.name))
    return found


def kill_one(path: Path, seconds: float) -> None:
    """Kill an evaluation so long after its sandbox has begun, and wait for the end of the sandbox."""
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    evaluation = subprocess.Popen(
        [sys.executable, "-c", EVALUATION, str(path)], cwd=ROOT, env=variables, stdin=subprocess.PIPE
    )
    try:
        wait_until(lambda: children(evaluation.pid), SECONDS, "a host", every=0.01)
        (session,) = children(evaluation.pid)
        time.sleep(seconds)  # any moment: not a wait for something
    finally:
        evaluation.kill()
        evaluation.communicate()
    wait_until(lambda: not in_session(session), SECONDS, f"end of session {session}")


def test_nothing_is_left(tmp_path, request) -> None:
    kills = SLOW_KILLS if request.config.getoption("--slow") else KILLS
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    path = written(tmp_path, STUBBORN)
    for _ in range(kills):
        kill_one(path, rng.uniform(0, 1))
