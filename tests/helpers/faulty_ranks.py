"""marl.doctor.rank_probe with a fault: as a program, which FAULT tells the fault, or as a call in a forked process."""

import os
import signal
import sys
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from marl.doctor import rank_probe

probe = rank_probe.probe


def gradients(group) -> dict:
    """First the gradients are not averaged, reported as `unwrapped`; then a weight of rank 1 changes after the step."""
    import torch

    def wrap(net):
        with torch.no_grad():
            for parameter in net.parameters():
                group.mean_(parameter)
        return net

    def check(named, where):
        named = list(named)
        with torch.no_grad():
            named[2][1][0, 0] += 1e-6 * group.rank
        type(group).check_sync(group, named, where)

    with mock.patch.object(group, "wrap", wrap):
        unwrapped = rank_probe._gradient_check(group)
    with mock.patch.object(group, "check_sync", check):
        return probe(group) | {"unwrapped": unwrapped}


def killed(group) -> dict:
    """Rank 1 is killed."""
    from marl.ranks import roll_call

    mock.patch.object(roll_call, "PATIENCE", 1.0).start()
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return probe(group)


def hang(backend: str, timeout: float) -> None:
    """Both ranks hang at their start. They hold a pipe open, so the test sees when they have ended."""
    pipe = os.open(os.environ["PIPE"], os.O_WRONLY)
    os.write(pipe, b"!")
    time.sleep(600)


def run_probe(fault: str, backend: str, timeout: str) -> int:
    """The whole probe with a fault, in a process of its own."""
    with mock.patch.object(rank_probe, "probe", globals()[fault]):
        return rank_probe._join_and_probe(backend, float(timeout))


if __name__ == "__main__":
    fault = globals()[os.environ["FAULT"]]
    # In place of _join_and_probe, torch is not even loaded.
    with mock.patch.object(rank_probe, "_join_and_probe" if fault is hang else "probe", fault):
        sys.exit(rank_probe.main(sys.argv[1:]))
