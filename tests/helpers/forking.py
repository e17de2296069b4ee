"""Processes that start at once: forked from a server that has loaded torch and the trainer, which takes seconds.
Otherwise they are processes like any other, with ids, exit codes, pipes, signals and children.

In a run of all tests the workers share one server, which conftest.py starts; otherwise every process has its own.
What libraries read from the environment when they are loaded is that of the server: one thread each.
"""

import ast
import atexit
import contextlib
import importlib
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

from helpers.command import ROOT, on_cpu
from helpers.planted import plant

SERVER = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
ADDRESS = "SNAKES_TEST_SERVER"  # environment variable: the socket of the shared server


def start_shared_server() -> None:
    """For this process and all that it starts. The server ends with this process."""
    _ensure_server()
    os.environ[ADDRESS] = repr(forkserver._forkserver._forkserver_address)  # may begin with a zero byte


def _ensure_server() -> None:
    server = forkserver._forkserver
    if server._forkserver_address is None and ADDRESS in os.environ:
        server._forkserver_address = ast.literal_eval(os.environ[ADDRESS])
        server._forkserver_alive_fd = os.pipe()[1]  # forked processes expect one
        server.ensure_running = lambda: None  # it would look for a child of this process
    forkserver.set_forkserver_preload(["helpers.preloaded"])
    with mock.patch.dict(os.environ, SERVER | {"PYTHONPATH": f"{ROOT}:{ROOT}/tests"}):
        server.ensure_running()


def forking_context() -> multiprocessing.context.ForkServerContext:
    """Of multiprocessing; its processes are forked from the server."""
    _ensure_server()
    return multiprocessing.get_context("forkserver")


class Forked:
    """A call in a process of its own, which ends with what it returns as exit code; used like a subprocess.Popen."""

    def __init__(self, call: Callable[..., int], *words: Any, environment: dict[str, str]) -> None:
        context = forking_context()
        pipes = [context.Pipe(duplex=False) for _ in ("stdout", "stderr")]
        ends = [end for _, end in pipes]
        self.args = list(words)
        self._process = context.Process(target=_run, args=(call, words, SERVER | environment, *ends), daemon=True)
        self._process.start()
        for end in ends:
            end.close()
        self.pid = self._process.pid
        self.stdout, self.stderr = (Output(end) for end, _ in pipes)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it prints from now on to its end."""
        self.wait(timeout)
        return self.stdout.read(timeout), self.stderr.read(timeout)


class Output:
    """What a process prints, by lines. They are read as they come: no process waits because nobody reads its pipe."""

    def __init__(self, end: Connection) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        with end:
            stream = os.fdopen(os.dup(end.fileno()))
        threading.Thread(target=self._fill, args=(stream,), daemon=True).start()

    def readline(self, timeout: float | None = None) -> str:
        line = self._lines.get(timeout=timeout)
        if not line:
            self._lines.put(line)  # the end stays the end
        return line

    def __iter__(self) -> Iterator[str]:
        return iter(self.readline, "")

    def read(self, timeout: float | None = None) -> str:
        """All up to the end; queue.Empty if nothing is printed for this many seconds."""
        return "".join(iter(lambda: self.readline(timeout), ""))

    def _fill(self, stream: TextIO) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put("")


# --- in the forked process


def _run(
    call: Callable[..., int], words: Sequence[Any], environment: dict[str, str], out: Connection, err: Connection
) -> None:
    for end, stream in ((out, sys.stdout), (err, sys.stderr)):
        os.dup2(end.fileno(), stream.fileno())
        end.close()
    os.chdir(ROOT)
    to_its_end(call, words, environment)


def to_its_end(call: Callable[..., int], words: Sequence[Any], environment: dict[str, str]) -> None:
    """This process is the call, and ends with it."""
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    try:
        code = call(*words)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def snakes(*words: str) -> int:
    """`python -m marl`, with the faults that PLANTED in its environment names. Its ranks are forked as well."""
    from helpers.short_matches import short_matches
    from marl.cli import main as cli
    from marl.ranks import fork_launch

    def become_rank(*arguments: Any) -> None:
        become(*arguments)
        for fault in faults:
            plant(fault)

    become, faults = fork_launch._Launcher._become_rank, os.environ.get("PLANTED", "").split()
    mock.patch.object(fork_launch._Launcher, "_become_rank", become_rank).start()
    # In a launcher, those of a rank would be the faults of all ranks that it forks.
    is_launcher = "--distributed" in words and "RANK" not in os.environ
    for fault in faults:
        if not is_launcher or ":elastic:" in fault:
            plant(fault)
    forked_ranks_of_torch().start()
    with short_matches(words):
        return cli.main(on_cpu(list(words)))


def torchrun(*words: str) -> int:
    """`torchrun`; its ranks are forked."""
    from torch.distributed import run

    forked_ranks_of_torch().start()
    run.main(words)
    return 0


def forked_ranks_of_torch() -> Any:
    """A patch: ranks that torch's launcher starts in this process are forked from it."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    return mock.patch.object(SubprocessHandler, "_popen", lambda self, command, variables: Rank(command, variables))


class Rank:
    """A rank that a launcher starts; as much of subprocess.Popen as torch needs."""

    def __init__(self, command: tuple[str, ...], environment: dict[str, str]) -> None:
        *how, module = command[:4]
        assert how == [sys.executable, "-u", "-m"], command
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            with contextlib.suppress(OSError):  # Linux; /proc/self/environ stays the server's
                Path("/proc/self/comm").write_text(f"rank {environment['RANK']}")
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)  # of the launcher
            signal.signal(signal.SIGINT, signal.default_int_handler)
            program = snakes if module == "marl" else lambda *words: importlib.import_module(module).main([*words])
            to_its_end(program, command[4:], environment)

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a rank", timeout)
            time.sleep(0.01)
        return self.returncode
