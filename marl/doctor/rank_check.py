"""Checks of ranks: starts a few of them for some seconds, as training would, and reports their results.

rank_probe.py is the program of each rank. No rank outlives this process, however it ends: the stdin of a rank is a pipe
without data, which closes with this process.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

from arena import system
from marl.compute import machine
from marl.doctor.check import REINSTALL, Check
from marl.errors import UserError

PROGRAM = ("-m", "marl.doctor.rank_probe")
TIMEOUT = 60.0  # seconds that ranks wait for each other: torch may come from a slow network disk
GRACE = 11.0  # seconds the other ranks have to end after one has failed: a roll call takes up to 10


def examine(asked: str | None) -> tuple[dict[str, Any], list[Check]]:
    """Backend and number of ranks that training would choose, and whether such ranks work together."""
    import torch

    from marl.ranks.nodes import choose_cpu_ranks, choose_ranks_per_node, read_nodes
    from marl.ranks.placement import place

    gpus = torch.cuda.device_count()
    report: dict[str, Any] = {"backend": None, "train_ddp": None, "round_trip": None}
    try:
        on_cpu = choose_cpu_ranks(machine.processor()["cores"], system.SHARES_MEMORY, splits_small=True)
        report["train_ddp"] = choose_ranks_per_node(os.environ, on_cpu, gpus, None)
        read_nodes(os.environ)
        report["backend"] = backend = place(asked, "auto", 0, 1, gpus)[0]
    except UserError as error:
        return report, [Check.failed("ranks", error)]
    # NCCL: all GPUs, one rank each. gloo: two ranks are enough to see every fault.
    ends = _run(backend, gpus if backend == "nccl" else 2)
    problem = _problem(ends)
    if problem:
        fix = "try --backend gloo, and NCCL_DEBUG=INFO tells more" if backend == "nccl" else REINSTALL
        return report, [Check("round trip", False, problem, fix)]
    report["round_trip"] = found = json.loads(ends[0].out.splitlines()[-1])
    return report, [_round_trip(found), _gradients(found)]


def _round_trip(found: dict[str, Any]) -> Check:
    who = f"{found['ranks']} rank{'s' * (found['ranks'] > 1)} over {found['backend']} on {found['device']}"
    if found["ranks"] == 1:
        return Check("round trip", True, f"{who}: nobody to talk to")
    speed = f"{found['latency_us']:,} us for a small all-reduce, {found['bandwidth_mb_s']:,} MB/s for one of 16 MiB"
    return Check("round trip", True, f"{who}: {speed}")


def _gradients(found: dict[str, Any]) -> Check:
    if found["out_of_sync"]:
        fix = f"do not train on more than one rank here, try --backend gloo, or {REINSTALL}"
        return Check("gradients", False, found["out_of_sync"], fix)
    return Check("gradients", True, "the mean of all ranks; parameters are the same after a step")


class End(NamedTuple):
    """How a rank ended; code None: it did not end by itself and was killed."""

    code: int | None
    out: str
    err: str


def _run(backend: str, ranks: int) -> list[End]:
    with ExitStack() as held:
        # Held while the ranks run, so that no other program gets the port. Rank 0 can still listen: with SO_REUSEADDR
        # a port that is bound but not listening may be shared, where the system knows that.
        port = held.enter_context(socket.socket())
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 0))
        environment = _environment(ranks, port.getsockname()[1])
        if not system.SHARES_BOUND_PORTS:
            port.close()
        running = []
        for rank in range(ranks):
            # Files, not pipes: a rank with much output must not wait for a reader.
            out, err = (held.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            process = subprocess.Popen(
                [sys.executable, *PROGRAM, backend, str(TIMEOUT)],
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )
            held.callback(_end, process)
            running.append((process, out, err))
        _wait([process for process, _, _ in running])
        codes = [process.poll() for process, _, _ in running]
        for process, _, _ in running:
            _end(process)
        return [End(code, _text(out), _text(err)) for code, (_, out, err) in zip(codes, running, strict=True)]


def _environment(ranks: int, port: int) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    threads = str(max(1, machine.processor()["cores"] // ranks))
    wanted = {
        "OMP_NUM_THREADS": threads,
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        # torch asks the name server who 127.0.0.1 is whenever it connects, and waits 5 s for one that is silent.
        "RES_OPTIONS": "timeout:1 attempts:1",
    }
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [ours.get("PYTHONPATH")])]
    group = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    group |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": os.pathsep.join(path)}
    return wanted | ours | group


def _wait(processes: list[subprocess.Popen]) -> None:
    """Until all ranks have ended, or the time for it is over."""
    deadline = time.monotonic() + 2 * TIMEOUT
    failed = False
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        if None not in codes:
            return
        if any(codes) and not failed:
            failed, deadline = True, min(deadline, time.monotonic() + GRACE)
        time.sleep(0.02)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stdin.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _problem(ends: list[End]) -> str | None:
    """Why the ranks failed; of several failures the cause, not the loss of another rank that followed it."""
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_MISTAKE

    failed = [rank for rank, end in enumerate(ends) if end.code != 0]
    if not failed:
        return None
    rank = min(
        failed, key=lambda rank: (ends[rank].code is None, ends[rank].code in (EXIT_MISTAKE, EXIT_LOST_RANK), rank)
    )
    who = f"rank {rank} of {len(ends)}"
    code, _, err = ends[rank]
    if code is None:
        return f"{who} did not end within {2 * TIMEOUT:g} s and was killed"
    if code < 0:
        return f"{who} was killed by signal {-code}"
    last_line = err.strip().splitlines()[-1] if err.strip() else ""
    if last_line.startswith("snakes: "):
        return last_line.removeprefix("snakes: ").partition("; ")[0]  # the advice after it is for training
    return f"{who}: {last_line or f'ended with exit code {code}'}"
