"""A rank that the doctor starts: `python -m marl.doctor.rank_probe BACKEND TIMEOUT`, with torchrun's variables.

Measures latency and bandwidth between the ranks, and checks that their gradients and parameters agree.
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
    from marl.ranks.process_group import Ranks, Solo

LARGE = 16 * 2**20  # bytes of the all-reduce that measures bandwidth: the gradients of a large network
ROUNDS_SMALL, ROUNDS_LARGE = 200, 10


def main(argv: list[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    backend, timeout = argv
    return _join_and_probe(backend, float(timeout))


def _join_and_probe(backend: str, timeout: float) -> int:
    """Rank 0 prints the results of all ranks."""
    from marl.ranks.exits import EXIT_MISTAKE, LostRank
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.placement import set_nccl_defaults
    from marl.ranks.startup import start

    set_nccl_defaults()
    try:
        group = start(backend, timeout)
    except (UserError, LostRank) as error:
        print(f"snakes: {error}", file=sys.stderr)
        return EXIT_MISTAKE
    try:
        found = probe(group)
    except RuntimeError as error:
        lost = explain(error, group)
        if lost is None:
            raise
        leave(lost, group)
    if group.is_main:
        print(json.dumps(found), flush=True)
    group.close()
    return 0


def _end_with_parent() -> None:
    os.read(0, 1)  # not sys.stdin: its lock would block the ordinary end of the process
    os._exit(1)


def probe(group: "Solo | Ranks") -> dict[str, Any]:
    """The results of all ranks together; complete on rank 0 only."""
    found = {"ranks": group.world, "backend": group.backend, "device": group.device.type}
    return found | _speed(group) | {"out_of_sync": _gradient_check(group)}


def _speed(group: "Solo | Ranks") -> dict[str, float | None]:
    import torch

    group.doing = "the round trip"

    def seconds(tensor: torch.Tensor, rounds: int) -> float:
        taken = []
        for _ in range(rounds + rounds // 5):
            group.barrier("the round trip")  # so that the time does not include the wait for a slower rank
            begin = time.perf_counter()
            group.sum_(tensor)
            if tensor.is_cuda:
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken[-rounds:])  # the first rounds open connections

    small = seconds(torch.zeros(1, device=group.device), ROUNDS_SMALL)
    large = seconds(torch.zeros(LARGE // 4, device=group.device), ROUNDS_LARGE)
    total = group.sum_(torch.full((LARGE // 4,), float(group.rank + 1), device=group.device))
    wanted = group.world * (group.world + 1) / 2
    if group.any(not bool((total == wanted).all())):
        raise ArithmeticError(f"the sum over {group.world} ranks is wrong")
    if group.world == 1:
        return {"latency_us": None, "bandwidth_mb_s": None}
    return {"latency_us": round(small * 1e6, 1), "bandwidth_mb_s": round(LARGE / large / 1e6, 1)}


def _gradient_check(group: "Solo | Ranks") -> str | None:
    """The first fault of gradients or parameters after one update with different data on every rank; on rank 0."""
    import torch
    from torch import nn

    from marl.ranks.sync_check import OutOfSync

    group.doing = "the gradient check"
    torch.manual_seed(group.rank)  # parameters differ until `wrap`
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
