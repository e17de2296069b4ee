"""Times of the reductions of a rank: how long it waits for the slowest rank, and how long the reduction itself takes.

Only a measurement installs the clock (bench scaling); training without it has no clock and no extra collective.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from marl.ranks.process_group import Ranks


class Reduction(NamedTuple):
    """One all-reduce. Times are those of time.perf_counter()."""

    begin: float  # this rank has finished its work
    met: float  # all ranks have
    end: float  # the sum is there
    size: int  # bytes


class CollectiveClock:
    """Every reduction of gradients and every `sum_` of the group is preceded by a meeting of all ranks, and timed."""

    def __init__(self, group: Ranks, wrapped: Iterable[Any]) -> None:
        """wrapped: the modules that `group.wrap` has returned. The clock stays in them for good."""
        self._group, self._sum = group, group.sum_
        # A number for every segment of gloo's ring: with fewer, ranks leave the meeting up to N - 1 messages apart.
        self._meeting = torch.zeros(2 * group.world)
        self.reductions: list[Reduction] = []
        group.sum_ = self._timed_sum
        self._average_gradients, group.average_gradients = group.average_gradients, self._timed_average
        if not group.averages_gradients:
            for module in wrapped:
                module.register_comm_hook(None, self._average)

    def remove(self) -> None:
        """Give the group its own methods back; the modules are not to be used any more."""
        self._group.sum_, self._group.average_gradients = self._sum, self._average_gradients

    def _timed_sum(self, tensor: torch.Tensor) -> torch.Tensor:
        begin, met = self._meet()
        result = self._sum(tensor)
        self._record(begin, met, tensor)
        return result

    def _timed_average(self, gradients: torch.Tensor) -> torch.Tensor:
        begin, met = self._meet()
        averaged = self._average_gradients(gradients)
        self._record(begin, met, gradients)
        return averaged

    def _average(self, _state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """DistributedDataParallel's own reduction, in one piece: the gradients divided by the ranks, then summed."""
        begin, met = self._meet()
        gradients = bucket.buffer().div_(self._group.world)
        dist.all_reduce(gradients)
        self._record(begin, met, gradients)
        on_gpu = self._group.device.type == "cuda"
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future(
            devices=[self._group.device] if on_gpu else None
        )
        done.set_result(gradients)
        return done

    def _meet(self) -> tuple[float, float]:
        self._wait_for_device()
        begin = time.perf_counter()
        self._sum(self._meeting)
        return begin, time.perf_counter()

    def _record(self, begin: float, met: float, tensor: torch.Tensor) -> None:
        self._wait_for_device()
        size = tensor.numel() * tensor.element_size()
        self.reductions.append(Reduction(begin, met, time.perf_counter(), size))

    def _wait_for_device(self) -> None:
        if self._group.device.type == "cuda":
            torch.cuda.synchronize(self._group.device)
