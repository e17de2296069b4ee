"""What the ranks of test_scaling.py do on a slow network: time reductions, of plain tensors and of gradients."""

import copy
import json
import time
from pathlib import Path

import torch
from torch import nn

from helpers.processes import wait_until
from marl.ranks.collective_clock import CollectiveClock
from marl.ranks.process_group import Ranks
from marl.ranks.startup import start

GRADIENTS = 160 * 100 + 100  # numbers in the module below
LIMIT = 300


def time_reductions(folder: str, sizes: list[int], rounds: int) -> int:
    """Wait for the file `slow`; then rank 0 writes bytes and seconds of the fastest of each kind of reduction."""
    group = start("gloo", LIMIT, "cpu")
    assert isinstance(group, Ranks)
    torch.manual_seed(1)
    plain = nn.Linear(160, 100)
    watched = copy.deepcopy(plain)
    ddp_plain, ddp_watched = group.wrap(plain), group.wrap(watched)
    rows = torch.randn(8, 160) * (group.rank + 1)
    for module in (ddp_plain, ddp_watched):
        module(rows).square().mean().backward()
        module.zero_grad(set_to_none=True)
    clock = CollectiveClock(group, [ddp_watched])
    for module in (ddp_plain, ddp_watched):
        module(rows).square().mean().backward()
    assert torch.equal(plain.weight.grad, watched.weight.grad)  # the clock changes no bit
    assert [reduction.size for reduction in clock.reductions] == [4 * GRADIENTS]
    total = group.sum_(torch.tensor([group.rank + 1.0]))
    assert total.item() == group.world * (group.world + 1) / 2
    assert len(clock.reductions) == 2
    clock.remove()

    (Path(folder) / f"ready{group.rank}").touch()
    wait_until((Path(folder) / "slow").exists, LIMIT, "the network is slow")
    found = []
    for size in sizes:
        tensor, taken = torch.zeros(size // 4), []
        for _ in range(rounds):
            begin = time.perf_counter()
            group.sum_(tensor)
            taken.append(time.perf_counter() - begin)
        found.append((size, min(taken)))
    clock.reductions.clear()
    for _ in range(rounds):
        ddp_watched(rows).square().mean().backward()
    found.append((4 * GRADIENTS, min(each.end - each.met for each in clock.reductions)))
    if group.is_main:
        (Path(folder) / "found.json").write_text(json.dumps(found))
    group.barrier("the end")
    group.close()
    return 0
