"""A rank that the doctor starts: `python -m marl.doctor.rank_probe BACKEND TIMEOUT`, in torchrun's environment.

Measures how fast the ranks talk, and checks that their gradients and parameters stay the same.
"""

import json
import os
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from marl.errors import UserError

if TYPE_CHECKING:
    from marl.ranks.distributed import Ranks

LARGE = 16 * 2**20  # bytes of the all-reduce that measures bandwidth: the gradients of a large network
ROUNDS_SMALL, ROUNDS_LARGE = 200, 10


def main(words: list[str]) -> int:
    """Rank 0 prints what all have found."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from marl.ranks import distributed

    backend, timeout = words
    distributed.defaults_for_nccl()
    try:
        group = distributed.start(backend, float(timeout))
    except (UserError, distributed.LostRank) as error:
        print(f"snakes: {error}", file=sys.stderr)
        return 2
    try:
        found = probe(group)
    except RuntimeError as error:
        lost = distributed.explain(error, group)
        if lost is None:
            raise
        distributed.leave(lost, group)
    if group.is_main:
        print(json.dumps(found), flush=True)
    group.close()
    return 0


def _end_with_parent() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock would be in the way of an ordinary end
    os._exit(1)


def probe(group: "Ranks") -> dict[str, Any]:
    """What the ranks find out together; on rank 0 it is complete."""
    found = {"ranks": group.world, "backend": group.backend, "device": group.device.type}
    return found | _speed(group) | {"out_of_sync": _gradient_check(group)}


def _speed(group: "Ranks") -> dict[str, float | None]:
    import torch

    group.doing = "the round trip"

    def seconds(tensor: torch.Tensor, rounds: int) -> float:
        taken = []
        for _ in range(rounds + rounds // 5):
            group.barrier("the round trip")  # or a rank's time would hold the wait for a later one
            begin = time.perf_counter()
            group.sum_(tensor)
            if tensor.is_cuda:
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken[-rounds:])  # the first ones make connections

    small = seconds(torch.zeros(1, device=group.device), ROUNDS_SMALL)
    large = seconds(torch.zeros(LARGE // 4, device=group.device), ROUNDS_LARGE)
    total = group.sum_(torch.full((LARGE // 4,), float(group.rank + 1), device=group.device))
    wanted = group.world * (group.world + 1) / 2
    if group.any(not bool((total == wanted).all())):
        raise ArithmeticError(f"the sum over {group.world} ranks is wrong")
    if group.world == 1:
        return {"latency_us": None, "bandwidth_mb_s": None}
    return {"latency_us": round(small * 1e6, 1), "bandwidth_mb_s": round(LARGE / large / 1e6, 1)}


def _gradient_check(group: "Ranks") -> str | None:
    """What is wrong with gradients or parameters after one update with other data on every rank; on rank 0."""
    import torch
    from torch import nn

    from marl.ranks.distributed import OutOfSync

    group.doing = "the gradient check"
    torch.manual_seed(group.rank)  # parameters differ until they are wrapped
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(group.device)
    wrapped = group.wrap(net)
    rows = torch.randn(32, 8, device=group.device)
    own = torch.autograd.grad(net(rows).square().mean(), list(net.parameters()))
    wrapped(rows).square().mean().backward()
    wrong = None
    for (name, parameter), gradient in zip(net.named_parameters(), own, strict=True):
        mean = group.mean_(gradient)
        if wrong is None and not torch.allclose(parameter.grad, mean, rtol=1e-4, atol=1e-6):
            wrong = name
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    everyones = group.gather(wrong)
    try:
        group.check_sync(net.named_parameters(), "after a step")
        after = None
    except OutOfSync as error:
        after = str(error).partition(";")[0]
    for rank, name in enumerate(everyones or ()):
        if name is not None:
            return f"the gradient of {name} on rank {rank} of {group.world} is not the mean of all ranks"
    return after


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
