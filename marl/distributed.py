"""The only place that knows ranks: start, wrap, mean, any, barrier; Solo has the same methods for one process.

Host decisions (stop, NaN, signal, barrier, shared values) go over a gloo group of their own, so that none of them waits
for the GPU. When a rank is lost, a roll call over the store finds out which: see _RollCall.
"""

import atexit
import contextlib
import hashlib
import json
import math
import os
import re
import socket
import sys
import threading
import time
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
from marl.errors import UserError

T = TypeVar("T")
BACKENDS = ("gloo", "nccl")
EXIT_LOST_RANK = 3
EXIT_TOGETHER = 4  # all ranks left alike, and rank 0 has told why
PATIENCE = 5.0  # seconds a living rank has to answer a roll call: one numba call may hold the interpreter for a while

# How torch tells of a broken connection: gloo's errors are plain RuntimeErrors.
_CONNECTION_TROUBLE = re.compile(r"gloo|nccl|monitoredBarrier|by peer|Broken pipe|Timed out waiting|wait timeout", re.I)


class OutOfSync(RuntimeError):
    """Ranks that should hold the same parameters do not."""


class LostRank(RuntimeError):
    """A rank is dead or hangs. The message names it and what was going on."""


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
            f"{local_world} ranks on this node but {_count(gpus, 'GPU')} for them: NCCL needs one GPU per rank; "
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
        raise UserError(f"--device {device}: this machine has {_count(gpus, 'GPU')}, numbered from 0")
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
        self, rank: int, world: int, local_rank: int, backend: str, device: torch.device, where: "_Meeting"
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
        self._roll_call = _RollCall(self, where, dist.PrefixStore(self._share(uuid.uuid4().hex), store))

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module in DistributedDataParallel: rank 0's parameters everywhere, gradients averaged in backward."""
        with self._talking("wrap a network"), warnings.catch_warnings():
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
        raise OutOfSync(f"{where}: {_first_difference(details)}; {_GO_ON}")

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
        return f"{_ranks(odd)} of {len(details)} {_verb(odd, 'has', 'have')} other parameters than the rest"
    for i, name in enumerate(names[0]):
        odd = _minority([details[rank][i][1] for rank in everyone])
        if odd:
            return f"{name} on {_ranks(odd)} of {len(details)} differs from the other ranks"
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
            f"{', '.join(given)} {_verb(given, 'is', 'are')} set but {', '.join(missing)} "
            f"{_verb(missing, 'is', 'are')} not: start ranks with torchrun or ./train_ddp.sh, or unset "
            f"{_verb(given, 'it', 'them')} for one process"
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
    meeting = _Meeting(environment["MASTER_ADDR"], port, rank, world, timeout)
    return Ranks(rank, world, local_rank, backend, chosen, meeting)


def _whole(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not text.strip().isdecimal():
        raise UserError(f"{name}={text!r} is not a whole number; torchrun and ./train_ddp.sh set it right")
    return int(text)


class _Meeting:
    """The store where the ranks meet, at MASTER_ADDR:MASTER_PORT."""

    def __init__(self, address: str, port: int, rank: int, world: int, timeout: float) -> None:
        self.address, self.port, self.rank, self.world, self.timeout = address, port, rank, world, timeout
        self._at = f"{address}:{port} (MASTER_ADDR, MASTER_PORT)"
        # torchrun may host the store itself, and says so; otherwise rank 0 does, and it ends with rank 0.
        self.is_ours = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def open(self) -> dist.Store:
        """The store, once all ranks have come to it."""
        host = self.is_ours and self.rank == 0
        deadline = time.monotonic() + self.timeout
        # Looked at with plain sockets first: torch fills a screen with its own account before it raises.
        self._check_free() if host else self._await_server(deadline)
        store = self.connect(host)
        try:
            store.set(f"here/{self.rank}", "1")
            while self.absent(store):
                if time.monotonic() > deadline:
                    raise self.lost(self.absent(store))
                time.sleep(0.05)
        except dist.DistError as error:
            raise LostRank(f"the store at {self._at} is gone: look at what rank 0 printed") from error
        return store

    def connect(self, host: bool = False) -> dist.Store:
        try:
            return dist.TCPStore(
                self.address,
                self.port,
                is_master=host,
                timeout=timedelta(seconds=self.timeout),
                wait_for_workers=False,  # absent() can say who is missing; torch only counts
                use_libuv=sys.platform != "win32",  # not built into torch for Windows
            )
        except RuntimeError as error:
            raise UserError(
                f"no store of a process group answers at {self._at}: is that the address of rank 0?"
            ) from error

    def absent(self, store: dist.Store) -> list[int]:
        """Who has not come yet. After an elastic restart a launcher's store may still name those who came before it."""
        return [rank for rank in range(self.world) if not store.check([f"here/{rank}"])]

    def lost(self, ranks: list[int]) -> LostRank:
        return LostRank(
            f"{_ranks(ranks)} of {self.world} did not come to {self._at} within {self.timeout:g} s; "
            "look at what it printed, and start all ranks again"
        )

    def probe(self, timeout: float) -> None:
        """Raise OSError unless something listens there."""
        socket.create_connection((self.address, self.port), timeout=timeout).close()

    def _check_free(self) -> None:
        try:
            socket.getaddrinfo(self.address, self.port)
            with socket.socket() as probe:
                if os.name == "posix":  # as torch does: a port whose last user has just ended is free
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", self.port))
        except socket.gaierror as error:
            raise UserError(f"{self._at}: no such host") from error
        except OSError as error:
            raise UserError(
                f"port {self.port} on {self.address} cannot be used ({error.strerror}); "
                "choose another with --master_port or MASTER_PORT"
            ) from error

    def _await_server(self, deadline: float) -> None:
        while True:
            try:
                return self.probe(5.0)
            except OSError as error:
                if isinstance(error, socket.gaierror) or time.monotonic() > deadline:
                    raise UserError(
                        f"cannot reach {self._at} within {self.timeout:g} s ({error.strerror or error}): "
                        "is rank 0 running there, and the port open?"
                    ) from error
                time.sleep(0.1)


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
    _end(str(error), group._roll_call if isinstance(group, Ranks) else None)


def _end(message: str, roll_call: "_RollCall | None") -> NoReturn:
    sys.stderr.write(f"snakes: {message}\n")  # in one piece: other ranks write to the same terminal
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if roll_call is not None:
        roll_call.wait_for_others()
    os._exit(EXIT_LOST_RANK)


class _RollCall(threading.Thread):
    """Finds out which rank is lost, and ends a rank that waits in vain.

    A broken collective says little about who broke it: over gloo a killed rank's neighbours fail at once, while all
    others wait for the timeout and look just as silent as the dead one (seen with 4 ranks). So every rank has this
    thread, which answers for it even while its main thread waits. The first rank to fail calls the roll. Who does not
    answer is dead or stopped; if all answer, who did not fail is not taking part. All ranks report the first verdict.
    """

    def __init__(self, group: Ranks, where: _Meeting, store: dist.Store) -> None:
        super().__init__(name="roll call", daemon=True)
        self._group, self._where, self._store = group, where, store
        self._hosts = where.is_ours and group.rank == 0
        self._failed: str | None = None  # what the main thread was doing when its collective failed
        self._wake, self._stopped, self._judged, self._released = (threading.Event() for _ in range(4))
        self._verdict = self._reason = ""
        atexit.register(self.stop)  # a thread in the middle of a call into torch may crash a Python that shuts down
        self.start()

    def ask(self, reason: str) -> str:
        """The main thread's collective has failed: who is lost?"""
        self._reason = reason.strip().splitlines()[0][:200] if reason.strip() else "no reason given"
        self._failed = self._group.doing
        self._wake.set()
        # The store may be as frozen as the rank that hosts it, and would keep us waiting.
        self._judged.wait(2 * PATIENCE)
        return self._verdict or self._host_lost()

    def wait_for_others(self) -> None:
        """The host of the store stays until the others have read the verdict there."""
        if self._hosts:
            self._released.wait(2 * PATIENCE)

    def stop(self, in_order: bool = False) -> None:
        """No more calls. In order: the host of the store stays until the others have stopped, or torch complains."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._wake.set()
        if self._failed is not None:
            return
        self.join(PATIENCE)
        with contextlib.suppress(RuntimeError):
            if in_order and not self.is_alive():
                self._store.set(f"bye/{self._group.rank}", "1")
                deadline = time.monotonic() + 2.0
                while self._hosts and time.monotonic() < deadline and not self._all("bye", range(self._group.world)):
                    time.sleep(0.02)

    def _all(self, key: str, ranks: Iterable[int]) -> bool:
        return all(self._store.check([f"{key}/{rank}"]) for rank in ranks)

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._failed is not None or self._store.check(["called"]):
                    self._hold()
                    return
                self._wake.wait(0.5)
        except (RuntimeError, OSError):  # the store is gone, and with it the rank that hosts it
            self._verdict = self._verdict or self._host_lost()
        finally:
            self._judged.set()
            self._released.set()

    def _hold(self) -> None:
        store, rank, everyone = self._store, self._group.rank, range(self._group.world)
        if not self._hosts:
            self._where.probe(PATIENCE)  # torch would print a stack of C++ frames for a store that is gone
        store.set("called", "1")
        store.set(f"alive/{rank}", json.dumps(self._group.doing))
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._failed is not None:
                store.set(f"failed/{rank}", "1")
            over = time.monotonic() > deadline
            failed = [r for r in everyone if store.check([f"failed/{r}"])]
            if over or len(failed) == len(everyone) or store.check(["verdict"]):
                break
            time.sleep(0.1)
        alive = [r for r in everyone if store.check([f"alive/{r}"])]
        self._verdict = store.compare_set("verdict", "", self._judge(alive, failed)).decode()
        self._judged.set()
        store.set(f"told/{rank}", "1")
        # A main thread that waits in a collective with the lost rank may wait for long, with NCCL for ever.
        deadline = time.monotonic() + PATIENCE
        while self._failed is None and time.monotonic() < deadline and not self._stopped.is_set():
            time.sleep(0.1)
        while self._hosts and time.monotonic() < deadline:
            if self._all("told", alive):
                break
            time.sleep(0.1)
        self._released.set()
        if self._failed is None and not self._stopped.is_set():
            _end(self._verdict, None)

    def _judge(self, alive: list[int], failed: list[int]) -> str:
        world = self._group.world
        what = self._failed or self._group.doing
        silent = [r for r in range(world) if r not in alive]
        if silent:
            return (
                f"{_ranks(silent)} of {world} stopped answering during {what}: killed, out of memory, stopped, or "
                f"{_verb(silent, 'its node is', 'their nodes are')} down or cut off; {_GO_ON}"
            )
        absent = [r for r in alive if r not in failed]
        if absent:
            busy = sorted({json.loads(self._store.get(f"alive/{r}")) for r in absent})
            return (
                f"{_ranks(absent)} of {world} did not come to {what} within {self._where.timeout:g} s: "
                f"{_verb(absent, 'it is', 'they are')} still in {', '.join(busy)}; {_GO_ON}"
            )
        return f"all {world} ranks answer, but their connection broke during {what} ({self._reason}); {_GO_ON}"

    def _host_lost(self) -> str:
        what = self._failed or self._group.doing
        host = f"rank 0 of {self._group.world}" if self._where.is_ours else "the launcher that hosts the store"
        why = "killed, out of memory, stopped, or its node is down or cut off"
        return f"{host} stopped answering during {what}: {why}; {_GO_ON}"


_GO_ON = "go on with --resume and the run's folder"


def _ranks(ranks: list[int]) -> str:
    return f"{_verb(ranks, 'rank', 'ranks')} {', '.join(map(str, ranks))}"


def _verb(things: list[Any], one: str, many: str) -> str:
    return one if len(things) == 1 else many


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
