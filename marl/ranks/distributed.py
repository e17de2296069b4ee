"""The only place that knows ranks: start, wrap, mean, any, barrier; Solo has the same methods for one process.

Host decisions (stop, NaN, signal, barrier, shared values) go over a gloo group of their own, so that none of them waits
for the GPU. When a rank is lost, a roll call over the store finds out which: see roll_call.py.
"""

import contextlib
import hashlib
import math
import os
import re
import sys
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from arena.errors import ArenaError
from marl.compute.cuda_graphs import side_stream
from marl.errors import UserError
from marl.ranks.roll_call import GO_ON, RollCall, end
from marl.ranks.store import LostRank, Meeting
from marl.wording import count, named_ranks, verb

T = TypeVar("T")
BACKENDS = ("gloo", "nccl")
EXIT_TOGETHER = 4  # all ranks left alike, and rank 0 has told why

# How torch tells of a broken connection: gloo's errors are plain RuntimeErrors.
_CONNECTION_TROUBLE = re.compile(r"gloo|nccl|monitoredBarrier|by peer|Broken pipe|Timed out waiting|wait timeout", re.I)


class OutOfSync(RuntimeError):
    """Ranks that should hold the same parameters do not."""


# --- pure functions -------------------------------------------------------------------------------------------------


def lr_factor(scaling: str, world: int) -> float:
    """What the learning rate is multiplied by when the batch of `world` ranks counts as one."""
    factors = {"none": 1.0, "linear": float(world), "sqrt": math.sqrt(world)}
    if scaling not in factors:
        raise UserError(f"learning-rate scaling {scaling!r} is unknown; known: {', '.join(factors)}")
    return factors[scaling]


def warmup(update: int, updates: int) -> float:
    """A straight rise from 1/updates at update 0 to 1 at the last update of the warm-up, then 1."""
    return 1.0 if updates <= 0 else min(1.0, (update + 1) / updates)


def place(
    backend: str | None, device: str, local_rank: int, local_world: int, gpus: int, system: str = sys.platform
) -> tuple[str, torch.device]:
    """Backend and device of a rank; a combination that cannot work is a UserError."""
    if backend is not None and backend not in BACKENDS:
        raise UserError(f"backend {backend!r} is unknown; known: {', '.join(BACKENDS)}")
    chosen = _device(device, local_rank, gpus)
    if backend is None:
        backend = "nccl" if chosen.type == "cuda" and system.startswith("linux") else "gloo"
    if backend == "nccl" and chosen.type != "cuda":
        raise UserError("--backend nccl needs a GPU for every rank, but the device is the CPU; use --backend gloo")
    if backend == "nccl" and local_world > (1 if device.startswith("cuda:") else gpus):
        raise UserError(
            f"{local_world} ranks on this node but {count(gpus, 'GPU')} for them: NCCL needs one GPU per rank; "
            f"use --num_gpus {gpus}, or --backend gloo"
        )
    return backend, chosen


def _device(device: str, local_rank: int, gpus: int) -> torch.device:
    if device == "auto":
        device = "cuda" if gpus else "cpu"
    if device == "cpu":
        return torch.device("cpu")
    kind, _, index = device.partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise UserError(f"--device {device}: unknown; known: auto, cpu, cuda, cuda:N")
    if not gpus:
        raise UserError(f"--device {device}: torch sees no CUDA device here; use --device cpu")
    if index and int(index) >= gpus:
        raise UserError(f"--device {device}: this machine has {count(gpus, 'GPU')}, numbered from 0")
    # More ranks than GPUs share them in turn (gloo only; place() refuses it for NCCL).
    return torch.device("cuda", int(index) if index else local_rank % gpus)


def defaults_for_nccl(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Set what NCCL and CUDA should have where the user has set nothing; returns what was set.

    Call it before CUDA starts. P2P and InfiniBand are left to NCCL, which finds out by itself what works.
    """
    wanted = {
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    if "PYTORCH_ALLOC_CONF" in environment:  # the newer name of the same setting: the user's word counts
        del wanted["PYTORCH_CUDA_ALLOC_CONF"]
    missing = {name: value for name, value in wanted.items() if name not in environment}
    environment.update(missing)
    return missing


# --- one process ----------------------------------------------------------------------------------------------------


class Solo:
    """One process, no group: every method is there, and trivial."""

    rank = 0
    world = 1
    local_rank = 0
    is_main = True
    backend: str | None = None

    def __init__(self, device: torch.device) -> None:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        self.device = device
        self.doing = "start"

    def wrap(self, module: nn.Module) -> nn.Module:
        return module

    def no_sync(self, *modules: nn.Module) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def mean_(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def any(self, flag: bool) -> bool:
        return bool(flag)

    def barrier(self, what: str) -> None:
        pass

    def share(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any] | None:
        return [value]

    def check_sync(self, named: Iterable[tuple[str, torch.Tensor]], where: str) -> None:
        pass

    def close(self) -> None:
        pass


# --- a process group ------------------------------------------------------------------------------------------------


class Ranks:
    """A rank of a process group. Every method is a collective: all ranks call it, in the same order.

    `doing` says in a few words what the rank is at ("update", "save"): a lost rank is reported with it.
    With NCCL, ask `any` once per update before reading a value from the GPU: the host's group notices a lost rank,
    a wait for the GPU does not.
    """

    def __init__(
        self, rank: int, world: int, local_rank: int, backend: str, device: torch.device, where: Meeting
    ) -> None:
        self.rank, self.world, self.local_rank = rank, world, local_rank
        self.is_main = rank == 0
        self.backend, self.device = backend, device
        self.timeout = where.timeout
        self.doing = "start"
        if device.type == "cuda":
            torch.cuda.set_device(device)
        store = where.open()
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=world,
            # The host's group shall be the first to give up: it can name the rank, NCCL's watchdog only aborts.
            timeout=timedelta(seconds=where.timeout * (2 if backend == "nccl" else 1)),
            device_id=device if backend == "nccl" else None,
        )
        self._control = dist.new_group(backend="gloo", timeout=timedelta(seconds=where.timeout))
        # Keys of an earlier start of this group may still be in a launcher's store; a fresh name has none.
        self._roll_call = RollCall(self, where, dist.PrefixStore(self._share(uuid.uuid4().hex), store))

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module in DistributedDataParallel: rank 0's parameters everywhere, gradients averaged in backward."""
        with self._talking("wrap a network"), side_stream(self.device), warnings.catch_warnings():
            # torch 2.13 wants another name for broadcast_buffers, which older ones do not know.
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                module,
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )
            # Asked not to broadcast buffers, torch leaves them as they are at the start too.
            for buffer in module.buffers():
                dist.broadcast(buffer, src=0)
            return wrapped

    @contextlib.contextmanager
    def no_sync(self, *modules: nn.Module) -> Iterator[None]:
        """Within it backward() only adds up this rank's gradients; the next one outside averages them all."""
        with contextlib.ExitStack() as stack:
            for module in modules:
                stack.enter_context(module.no_sync())
            yield

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, in place."""
        # NCCL knows no CPU tensors; gloo takes both kinds.
        group = self._control if tensor.device.type == "cpu" else None
        with self._talking():
            dense = tensor.contiguous()
            dist.all_reduce(dense, group=group)
            return tensor if dense is tensor else tensor.copy_(dense)

    def mean_(self, tensor: torch.Tensor) -> torch.Tensor:
        """The mean over ranks, in place."""
        return self.sum_(tensor).div_(self.world)

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank: no rank may stop or skip alone."""
        answer = torch.tensor([int(flag)], dtype=torch.int32)
        with self._talking():
            dist.all_reduce(answer, op=dist.ReduceOp.MAX, group=self._control)
        return bool(answer.item())

    def barrier(self, what: str) -> None:
        """Wait for all ranks. `what` is named when one does not come."""
        with self._talking(what):
            # Not monitored_barrier: it prints lines of its own, tells rank 0 alone, and the roll call knows more.
            dist.all_reduce(torch.zeros(1), group=self._control)

    def share(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        with self._talking():
            return self._share(value)

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value, in their order, on rank 0; None elsewhere."""
        with self._talking():
            values: list[Any] | None = [None] * self.world if self.is_main else None
            dist.gather_object(value, values, dst=0, group=self._control)
            return values

    def check_sync(self, named: Iterable[tuple[str, torch.Tensor]], where: str) -> None:
        """Raise OutOfSync, on all ranks alike, unless the tensors are the same to the bit on all of them."""
        mine = [(name, _digest(tensor)) for name, tensor in named]
        summary = hashlib.sha256(repr(mine).encode()).digest()
        with self._talking(f"check of {where}"):
            summaries: list[Any] = [torch.empty(len(summary), dtype=torch.uint8) for _ in range(self.world)]
            dist.all_gather(summaries, torch.frombuffer(bytearray(summary), dtype=torch.uint8), group=self._control)
            if all(torch.equal(other, summaries[0]) for other in summaries):
                return
            details: list[Any] = [None] * self.world
            dist.all_gather_object(details, mine, group=self._control)
        raise OutOfSync(f"{where}: {_first_difference(details)}; {GO_ON}")

    def close(self) -> None:
        """Leave the group. Waits for nobody for long: it also runs when this rank has failed."""
        self._roll_call.stop(in_order=True)
        if dist.is_initialized():
            dist.destroy_process_group()

    def _share(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._control, device=torch.device("cpu"))
        return box[0]

    @contextlib.contextmanager
    def _talking(self, what: str | None = None) -> Iterator[None]:
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


def _digest(tensor: torch.Tensor) -> str:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()


def _first_difference(details: list[list[tuple[str, str]]]) -> str:
    """Names the first tensor that is not the same everywhere, and the ranks that differ from most."""
    everyone = range(len(details))
    names = [[name for name, _ in mine] for mine in details]
    odd = _minority(names)
    if odd:
        return f"{named_ranks(odd)} of {len(details)} {verb(odd, 'has', 'have')} other parameters than the rest"
    for i, name in enumerate(names[0]):
        odd = _minority([details[rank][i][1] for rank in everyone])
        if odd:
            return f"{name} on {named_ranks(odd)} of {len(details)} differs from the other ranks"
    raise AssertionError("the summaries differ, the details do not")


def _minority(values: list[Any]) -> list[int]:
    keys = [repr(value) for value in values]
    usual = Counter(keys).most_common(1)[0][0]  # a tie goes to the value seen first: rank 0's
    return [rank for rank, key in enumerate(keys) if key != usual]


def on_main(group: Solo | Ranks, act: Callable[[], T]) -> T:
    """What rank 0 gets when it acts, on every rank. A user's mistake that it runs into is raised on all of them too,
    so that none waits for it."""
    value = problem = None
    if group.is_main:
        try:
            value = act()
        except (UserError, ArenaError) as error:
            problem = str(error)
    value, problem = group.share((value, problem))
    if problem is not None:
        raise UserError(problem)
    return value


# --- start ----------------------------------------------------------------------------------------------------------


def start(backend: str | None = None, timeout: float = 600.0, device: str = "auto") -> Solo | Ranks:
    """Join the process group that torchrun's environment tells of; without one, Solo."""
    environment = os.environ
    given = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in environment]
    gpus = torch.cuda.device_count()
    if not given:
        return Solo(place(None, device, 0, 1, gpus)[1])
    needed = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        raise UserError(
            f"{', '.join(given)} {verb(given, 'is', 'are')} set but {', '.join(missing)} "
            f"{verb(missing, 'is', 'are')} not: start ranks with torchrun or ./train_ddp.sh, or unset "
            f"{verb(given, 'it', 'them')} for one process"
        )
    rank, world, local_rank, port = (
        _whole(environment, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    if rank >= world:
        raise UserError(f"RANK={rank} but WORLD_SIZE={world}: ranks count from 0 to {world - 1}")
    if not 0 < port < 2**16:
        raise UserError(f"MASTER_PORT={port}: a port is a number from 1 to 65535")
    local_world = _whole(environment, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in environment else local_rank + 1
    backend, chosen = place(backend, device, local_rank, local_world, gpus)
    if backend == "nccl" and not dist.is_nccl_available():
        raise UserError("this torch has no NCCL; use --backend gloo")
    if sys.platform == "darwin" and rank == 0:
        print("snakes: warning: on one Mac several ranks share one device and bring nothing", file=sys.stderr)
    meeting = Meeting(environment["MASTER_ADDR"], port, rank, world, timeout)
    return Ranks(rank, world, local_rank, backend, chosen, meeting)


def _whole(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not text.strip().isdecimal():
        raise UserError(f"{name}={text!r} is not a whole number; torchrun and ./train_ddp.sh set it right")
    return int(text)


# --- who is lost ----------------------------------------------------------------------------------------------------


def explain(error: BaseException, group: Solo | Ranks) -> LostRank | None:
    """Which rank is lost, if that is why `error` was raised; None for any other error.

    For the top level: DDP's own all-reduce fails inside backward() with a plain RuntimeError.
    """
    if isinstance(error, LostRank):
        return error
    if isinstance(group, Solo) or not isinstance(error, RuntimeError) or isinstance(error, OutOfSync):
        return None
    if not (isinstance(error, dist.DistError) or _CONNECTION_TROUBLE.search(str(error))):
        return None
    return LostRank(group._roll_call.ask(str(error)))


def leave(error: LostRank, group: Solo | Ranks) -> NoReturn:
    """Tell the loss in one line and end this process at once: a group with a lost rank cannot be taken down in order.

    Nothing runs after it, no `finally` and no atexit: close files before.
    """
    end(str(error), group._roll_call if isinstance(group, Ranks) else None)
