"""Collectives of the ranks of a training. `Ranks` has them for a process group, `Solo` for a single process.

Decisions of the hosts (stop, NaN, signal, barrier, shared values) go over a gloo group of their own, so that none of
them waits for the GPU. When a collective fails, the failure detector names the lost rank: see roll_call.py.
"""

import contextlib
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from arena.backends.cuda_graphs import side_stream
from arena.errors import ArenaError
from marl.errors import UserError
from marl.ranks import shared_memory
from marl.ranks.exits import GO_ON
from marl.ranks.keep_alive import meetings
from marl.ranks.lazy_ddp import LazyDdp
from marl.ranks.lost_rank import explain, leave
from marl.ranks.roll_call import RollCall
from marl.ranks.shared_memory import SharedMemory
from marl.ranks.store import RendezvousStore
from marl.ranks.sync_check import OutOfSync, digests_of, first_difference, summary_of

T = TypeVar("T")


class Solo:
    """One process without a group: the methods of Ranks, each of them trivial."""

    rank = 0
    world = 1
    is_main = True
    backend: str | None = None
    transport = ""
    roll_call = None
    waited = 0.0

    def __init__(self, device: torch.device, overlaps: bool = False) -> None:
        """overlaps: whether a learner's work may run as two halves at once (compute/overlap.py), for which threads must
        be set (training/cpu_setup.py).
        """
        if device.type == "cuda":
            torch.cuda.set_device(device)
        self.device = device
        self.overlaps = overlaps
        self.doing = "start"

    def wrap(self, module: nn.Module) -> nn.Module:
        return module

    def no_sync(self, *modules: nn.Module) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def alone(self, *modules: nn.Module) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def mean_(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def average_gradients(self, gradients: torch.Tensor) -> torch.Tensor:
        return gradients

    def any(self, flag: bool) -> bool:
        return bool(flag)

    def barrier(self, what: str) -> None:
        pass

    def keep_alive(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any] | None:
        return [value]

    def check_sync(self, named: Iterable[tuple[str, torch.Tensor]], where: str) -> None:
        pass

    def close(self) -> None:
        pass


class Ranks:
    """A rank of a process group. Every method is a collective: all ranks call it, in the same order.

    `doing` names the present work of the rank in a few words ("update", "save"); the report of a lost rank contains it.
    With NCCL, call `any` once per update before reading a value from the GPU: the hosts' group notices a lost rank, a
    wait for the GPU does not.
    """

    overlaps = False  # collectives come in the same order on all ranks

    def __init__(
        self,
        rank: int,
        world: int,
        backend: str,
        device: torch.device,
        rendezvous: RendezvousStore,
        share_memory: bool = False,
    ) -> None:
        """share_memory: ranks on one machine sum CPU tensors through shared memory."""
        self.rank, self.world = rank, world
        self.is_main = rank == 0
        self.backend, self.device = backend, device
        self.doing = "start"
        self.waited = 0.0  # seconds that this process has spent in sums; those on a GPU do not hold it up
        if device.type == "cuda":
            torch.cuda.set_device(device)
        store = rendezvous.open()
        timeout = rendezvous.timeout
        self._meeting_interval = min(1.0, timeout / 4)  # seconds, in keep_alive
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=world,
            # The hosts' group shall be the first to give up: it can name the rank, NCCL's watchdog only aborts.
            timeout=timedelta(seconds=timeout * (2 if backend == "nccl" else 1)),
            device_id=device if backend == "nccl" else None,
        )
        self._hosts_group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        # An agent's store may still hold keys of an earlier start of this group; under a fresh prefix there are none.
        self.roll_call = RollCall(self, rendezvous, dist.PrefixStore(self._broadcast(uuid.uuid4().hex), store))
        self._memory: SharedMemory | None = None
        if share_memory and device.type == "cpu" and world > 1:
            with self._collective("joining the shared memory"):
                self._memory = shared_memory.join(rank, world, timeout, self._all_gather)

    def wrap(self, module: nn.Module) -> Any:
        """The module in DistributedDataParallel: rank 0's parameters on all ranks, gradients averaged in backward."""
        with self._collective("wrap a network"):
            # Without broadcast_buffers, DistributedDataParallel does not broadcast buffers at the start either.
            for buffer in module.buffers():
                dist.broadcast(buffer, src=0)
            if self.device.type == "cuda":
                return self._wrap(module)
            for parameter in module.parameters():
                dist.broadcast(parameter.detach(), src=0)
            return LazyDdp(module, lambda: self._wrap(module))

    def _wrap(self, module: nn.Module) -> nn.Module:
        with self._collective("wrap a network"), side_stream(self.device), warnings.catch_warnings():
            # torch 2.13 wants another name for broadcast_buffers, which older versions do not know.
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                module,
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )
            if self.device.type == "cpu":
                wrapped.register_comm_hook(None, lambda _, bucket: _done(self._average_bucket(bucket.buffer())))
            return wrapped

    @contextlib.contextmanager
    def no_sync(self, *modules: Any) -> Iterator[None]:  # Any: `wrap` returns them as plain modules
        """Inside, backward() only adds up this rank's gradients; the next backward() outside averages them all."""
        with contextlib.ExitStack() as stack:
            for module in modules:
                stack.enter_context(module.no_sync())
            yield

    @contextlib.contextmanager
    def alone(self, *modules: Any) -> Iterator[None]:
        """Inside, backward() gives the gradients of this rank, on a CPU: no other rank is asked."""
        with contextlib.ExitStack() as stack:
            for module in modules:
                stack.enter_context(module.alone())
            yield

    @property
    def transport(self) -> str:
        """How gradients travel between the ranks, for the console."""
        return "shared memory" if self._memory is not None else str(self.backend)

    def average_gradients(self, gradients: torch.Tensor) -> torch.Tensor:
        """The mean over ranks of a contiguous tensor of gradients, in place."""
        begin = time.perf_counter()
        if self._memory is not None and gradients.device.type == "cpu":
            mean = self._memory.mean_(gradients)
        else:
            mean = self._sum(gradients).div_(self.world)
        self.waited += time.perf_counter() - begin
        return mean

    def _average_bucket(self, gradients: torch.Tensor) -> torch.Tensor:
        """For DistributedDataParallel on CPUs. Over gloo it is what torch would do, in the same bits, but timed."""
        if self._memory is not None:
            return self.average_gradients(gradients)
        begin = time.perf_counter()
        dist.all_reduce(gradients.mul_(1 / self.world))
        self.waited += time.perf_counter() - begin
        return gradients

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, in place."""
        begin = time.perf_counter()
        with self._collective():
            total = self._sum(tensor.contiguous())
        self.waited += time.perf_counter() - begin
        return tensor if total is tensor else tensor.copy_(total)

    def _sum(self, dense: torch.Tensor) -> torch.Tensor:
        """The sum of a contiguous tensor, in place."""
        on_cpu = dense.device.type == "cpu"
        if on_cpu and self._memory is not None:
            return self._memory.sum_(dense)
        # NCCL has no CPU tensors; gloo takes both kinds.
        dist.all_reduce(dense, group=self._hosts_group if on_cpu else None)
        return dense

    def mean_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The mean over ranks, in place."""
        return self.sum_(tensor).div_(self.world)

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank: no rank may stop or skip alone."""
        total = self.sum_(torch.tensor([int(flag)], dtype=torch.int32))
        return bool(total.item())

    def barrier(self, what: str) -> None:
        """Wait for all ranks; the report of a rank that does not come contains `what`."""
        with self._collective(what):
            # Not monitored_barrier: it prints lines of its own, informs rank 0 alone, and knows less than roll_call.
            dist.all_reduce(torch.zeros(1), group=self._hosts_group)

    def keep_alive(self) -> contextlib.AbstractContextManager:
        """A block of work that may take longer on some ranks than the time limit; it ends when all ranks are done.

        No collective may run in the block.
        """
        return meetings(self._count, self.world, self._meeting_interval, lambda lost: leave(lost, self))

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        with self._collective():
            return self._broadcast(value)

    def gather(self, value: Any) -> list[Any] | None:
        """On rank 0 the values of all ranks, in their order; None on the other ranks."""
        with self._collective():
            values: list[Any] | None = [None] * self.world if self.is_main else None
            dist.gather_object(value, values, dst=0, group=self._hosts_group)
            return values

    def check_sync(self, named: Iterable[tuple[str, torch.Tensor]], where: str) -> None:
        """Raise OutOfSync on all ranks unless the tensors are equal to the bit on all of them."""
        mine = digests_of(named)
        summary = summary_of(mine)
        with self._collective(f"check of {where}"):
            summaries: list[Any] = [torch.empty(len(summary), dtype=torch.uint8) for _ in range(self.world)]
            own_summary = torch.frombuffer(bytearray(summary), dtype=torch.uint8)
            dist.all_gather(summaries, own_summary, group=self._hosts_group)
            if all(torch.equal(other, summaries[0]) for other in summaries):
                return
            digests: list[Any] = [None] * self.world
            dist.all_gather_object(digests, mine, group=self._hosts_group)
        raise OutOfSync(f"{where}: {first_difference(digests)}; {GO_ON}")

    def _count(self, number: int) -> int:
        total = torch.tensor([number], dtype=torch.int32)
        with self._collective():
            dist.all_reduce(total, group=self._hosts_group)
        return int(total.item())

    def close(self) -> None:
        """Leave the group. It waits a few seconds at most, since it also runs when this rank has failed."""
        self.roll_call.stop(in_order=True)
        if dist.is_initialized():
            dist.destroy_process_group()

    def _all_gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=self._hosts_group)
        return values

    def _broadcast(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._hosts_group, device=torch.device("cpu"))
        return box[0]

    @contextlib.contextmanager
    def _collective(self, what: str | None = None) -> Iterator[None]:
        """Turn errors of a lost rank into LostRank; `what` replaces `doing` meanwhile."""
        before = self.doing
        self.doing = what or before
        try:
            yield
        except RuntimeError as error:
            lost = explain(error, self)
            if lost is None:
                raise
            raise lost from error
        finally:
            self.doing = before


def _done(tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    """The answer to DistributedDataParallel, which asks for a future."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(tensor)
    return done


def on_main(group: Solo | Ranks, act: Callable[[], T]) -> T:
    """Call `act` on rank 0 only and return its result on every rank. It may take longer than the time limit.

    A UserError or ArenaError of `act` becomes a UserError on every rank, so that no rank waits for rank 0.
    """
    value = problem = None
    with group.keep_alive():
        if group.is_main:
            try:
                value = act()
            except (UserError, ArenaError) as error:
                problem = str(error)
    value, problem = group.broadcast((value, problem))
    if problem is not None:
        raise UserError(problem)
    return value
