"""marl.doctor.rank_probe with the fault that FAULT names."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import marl.ranks
from marl.doctor import rank_probe

probe = rank_probe.probe


def gradients(group) -> dict:
    """First nobody averages the gradients, told as `unwrapped`; then a weight of rank 1 is another after the step."""
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

    group.wrap = wrap
    unwrapped = rank_probe._gradient_check(group)
    del group.wrap
    group.check_sync = check
    return probe(group) | {"unwrapped": unwrapped}


def killed(group) -> dict:
    """Rank 1 is gone."""
    from marl.ranks import roll_call

    roll_call.PATIENCE = 1.0
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return probe(group)


def hang() -> None:
    """Both ranks, at their start. The test sees by its end of the pipe when they are gone."""
    pipe = os.open(os.environ["PIPE"], os.O_WRONLY)
    os.write(pipe, b"!")
    time.sleep(600)


if __name__ == "__main__":
    if os.environ["FAULT"] == "hang":
        marl.ranks.distributed = SimpleNamespace(defaults_for_nccl=hang)  # and torch is not loaded
    else:
        rank_probe.probe = globals()[os.environ["FAULT"]]
    sys.exit(rank_probe.main(sys.argv[1:]))
